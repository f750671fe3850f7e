"""What policies do to a request before it is computed, and to text before it goes out. Nothing is changed in
place: a new view comes back, in which what was not touched is the same object.

refusal   what could not be done, and why      messages  injected text, system prompts, media
parameters  set and clamped                    texts     masked and replaced
request   one action on a request              output    one action on text of an answer
"""

from hooks.applying.output import OutputDraft, apply_to_output, output_draft
from hooks.applying.refusal import ActionRefused
from hooks.applying.request import apply_to_request
from hooks.applying.texts import MaskIncomplete

__all__ = [
    "ActionRefused",
    "MaskIncomplete",
    "OutputDraft",
    "apply_to_output",
    "apply_to_request",
    "output_draft",
]
