"""Why a model cannot be used: what an operator must know, and nothing that only we understand."""


class ModelLoadError(Exception):
    """The model cannot be used with these settings on this machine; one sentence for the operator,
    which names the setting at fault where there is one."""


class ModelDoesNotFit(ModelLoadError):
    """There is not enough memory now; there may be once others have given some back."""
