"""Parameters that we know and do not serve: which values of them change nothing, and a no to the rest.

A parameter that is silently dropped turns a benchmark into noise (n_probs) or an answer
into one that the caller did not ask for (modalities). A value that asks for nothing
is another matter: SDKs send `best_of: 1` and `echo: false` all day. So each parameter
here has its neutral values; anything else is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from inference.domain.errors import UnsupportedParameter
from inference.openai.fields import Fields

MAX_METADATA_ENTRIES = 16  # these three are OpenAI's
MAX_METADATA_KEY_CHARS = 64
MAX_METADATA_VALUE_CHARS = 512
MAX_LABEL_CHARS = 512
MAX_SAFETY_IDENTIFIER_CHARS = 64  # OpenAI's
MAX_CHOICES = 128  # OpenAI's

SERVICE_TIERS = ("auto", "default", "flex", "scale", "priority", "fast")
VERBOSITIES = ("low", "medium", "high")
CACHE_RETENTIONS = ("in_memory", "24h")


@dataclass(frozen=True, slots=True)
class Refusal:
    """`is_neutral` says which values may pass; `advice` ends the message about the others."""

    is_neutral: Callable[[object], bool]
    advice: str = ""


def _never(value: object) -> bool:
    return False


def _number(*neutral: float) -> Callable[[object], bool]:
    """One of these numbers; `true` is not 1."""
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and value in neutral


def _any_number(value: object) -> bool:
    """For parameters of a method that is refused itself: alone they say nothing."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _exactly(*neutral: object) -> Callable[[object], bool]:
    return lambda value: any(type(value) is type(one) and value == one for one in neutral)


_NOT_ZERO = Refusal(_number(0))
_NOT_FALSE = Refusal(_exactly(False))
_NOT_EMPTY_LIST = Refusal(_exactly([]))
_ALWAYS = Refusal(_never)
_HARMLESS_NUMBER = Refusal(_any_number)

# What other servers define for both endpoints (llama.cpp, vLLM and their kin).
_BOTH: Mapping[str, Refusal] = {
    "guided_json": Refusal(_never, "Use 'structured_outputs'."),
    "guided_regex": Refusal(_never, "Use 'structured_outputs'."),
    "guided_choice": Refusal(_never, "Use 'structured_outputs'."),
    "guided_grammar": Refusal(_never, "Use 'structured_outputs'."),
    "adaptive": _ALWAYS,
    "adaptive_target": _ALWAYS,
    "adaptive_decay": _HARMLESS_NUMBER,
    "backend_sampling": _ALWAYS,
    "n_predict": Refusal(_never, "Use 'max_tokens'."),
    "n_probs": _NOT_ZERO,
    "prompt_logprobs": _ALWAYS,
    "logits_processors": _NOT_EMPTY_LIST,
    "use_beam_search": _NOT_FALSE,
    "length_penalty": Refusal(_number(1)),
    "stop_token_ids": _NOT_EMPTY_LIST,
    "bad_words": _NOT_EMPTY_LIST,
    "allowed_token_ids": _ALWAYS,
    "include_stop_str_in_output": _NOT_FALSE,
    "skip_special_tokens": Refusal(_exactly(True)),
    "truncate_prompt_tokens": _ALWAYS,
    "image_data": _NOT_EMPTY_LIST,
}

# Of all that is one answer to one prompt.
_ONE_CHOICE = Refusal(_number(1))

CHAT_REFUSALS: Mapping[str, Refusal] = {
    **_BOTH,
    "best_of": _ONE_CHOICE,
    "functions": Refusal(_exactly([]), "Use 'tools'."),
    # With no functions in the request, both mean an ordinary answer.
    "function_call": Refusal(_exactly("none", "auto"), "Use 'tool_choice'."),
    "audio": _ALWAYS,
    "modalities": Refusal(_exactly(["text"])),
    "prediction": _ALWAYS,
    "web_search_options": _ALWAYS,
    "moderation": _ALWAYS,
    "prompt_cache_options": Refusal(_exactly({})),
    "echo": _NOT_FALSE,
}

RESPONSE_REFUSALS: Mapping[str, Refusal] = {**CHAT_REFUSALS, "n": _ONE_CHOICE}

COMPLETION_REFUSALS: Mapping[str, Refusal] = {
    **_BOTH,
    "top_logprobs": Refusal(_never, "Use 'logprobs'."),
    # Ignored, it would cut answers at 16 tokens and look like a bad model.
    "max_completion_tokens": Refusal(_never, "Use 'max_tokens'."),
}


# What other servers define for embeddings (llama.cpp, vLLM, Jina): another text or another vector.
EMBEDDING_REFUSALS: Mapping[str, Refusal] = {
    "content": Refusal(_never, "Use 'input'."),
    "embd_normalize": Refusal(_number(2)),
    "normalize": Refusal(_exactly(True)),
    "normalized": Refusal(_exactly(True)),
    "add_special_tokens": Refusal(_exactly(True)),
    "truncate_prompt_tokens": _ALWAYS,
    "truncate": _NOT_FALSE,
    "late_chunking": _NOT_FALSE,
    "input_type": _ALWAYS,
    "task": _ALWAYS,
    "embedding_type": Refusal(_exactly("float"), "Use 'encoding_format'."),
    "messages": Refusal(_never, "Use 'input'."),
    "lora": _NOT_EMPTY_LIST,
    "stream": _NOT_FALSE,
}

RERANK_REFUSALS: Mapping[str, Refusal] = {
    "texts": Refusal(_never, "Use 'documents'."),
    "truncate_prompt_tokens": _ALWAYS,
    "truncation": _NOT_FALSE,
    "max_chunks_per_doc": _ALWAYS,
    "max_tokens_per_doc": _ALWAYS,
    "rank_fields": _ALWAYS,
    "instruction": _ALWAYS,
    "lora": _NOT_EMPTY_LIST,
    "stream": _NOT_FALSE,
}


def check_refused(fields: Fields, refusals: Mapping[str, Refusal]) -> None:
    """Raise UnsupportedParameter for the first parameter whose value would change the result.

    The kinds of `n` and `best_of` are checked first: 0 or "3" of them is wrong everywhere.
    """
    for name in ("n", "best_of"):
        fields.integer(name, 1, MAX_CHOICES)
    for name in fields.names():
        refusal = refusals.get(name)
        if refusal is None:
            continue
        value = fields.take(name)
        if value is not None and not refusal.is_neutral(value):
            param = fields.param(name)
            message = f"'{param}' is not supported here with this value."
            raise UnsupportedParameter(f"{message} {refusal.advice}".rstrip(), param=param)


def check_harmless(fields: Fields) -> None:
    """Parameters that are accepted and do nothing yet: only their kind is checked."""
    fields.choice("service_tier", SERVICE_TIERS)
    fields.string("safety_identifier", max_chars=MAX_SAFETY_IDENTIFIER_CHARS, is_label=True)
    fields.choice("verbosity", VERBOSITIES)
    fields.boolean("store")


def read_metadata(fields: Fields) -> Mapping[str, str] | None:
    """OpenAI's map of at most 16 short strings; recorded, and without effect on the answer."""
    given = fields.mapping("metadata")
    if given is None:
        return None
    if len(given) > MAX_METADATA_ENTRIES:
        raise fields.fail("metadata", f"it may have at most {MAX_METADATA_ENTRIES} entries")
    entries: dict[str, str] = {}
    for key, value in given.items():
        if len(key) > MAX_METADATA_KEY_CHARS:
            raise fields.fail("metadata", f"its keys may have at most {MAX_METADATA_KEY_CHARS} characters")
        if not isinstance(value, str) or len(value) > MAX_METADATA_VALUE_CHARS:
            raise fields.fail(
                "metadata", f"its values must be strings of at most {MAX_METADATA_VALUE_CHARS} characters"
            )
        if "\0" in key or "\0" in value:
            raise fields.fail("metadata", "it must not contain NUL characters")
        entries[key] = value
    return entries
