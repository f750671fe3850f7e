"""Requests that would spoil every batch they are in, found before they are in one."""

from __future__ import annotations

from inference.domain.errors import ContextLengthExceeded, GenerationFailed, SkippyError
from inference.domain.requests import GenerationRequest
from inference.engine.model_runner import ModelRunner

FAILED_MESSAGE = "The model could not continue this generation."
CONTEXT_MESSAGE = "The prompt does not fit the model's memory."


def refusal(request: GenerationRequest, runner: ModelRunner) -> SkippyError | None:
    """What is wrong with a request; None where it may start."""
    prompt = request.prompt_token_ids
    if not request.media:
        has_fault = min(prompt) < 0 or max(prompt) >= runner.num_vocabulary
    else:
        has_fault = _has_media_fault(request, runner.num_vocabulary)
    if has_fault:
        return GenerationFailed(FAILED_MESSAGE)
    if len(prompt) >= runner.num_cells:
        return ContextLengthExceeded(CONTEXT_MESSAGE)
    return None


def _has_media_fault(request: GenerationRequest, num_vocabulary: int) -> bool:
    """Ids are made up where embeddings are given, and nowhere else; runs follow each other."""
    prompt = request.prompt_token_ids
    end = 0
    for run in request.media:
        if not end <= run.start < run.end <= len(prompt):
            return True
        if any(not 0 <= one < num_vocabulary for one in prompt[end : run.start]):
            return True
        if any(one >= 0 for one in prompt[run.start : run.end]):
            return True
        end = run.end
    return any(not 0 <= one < num_vocabulary for one in prompt[end:])
