"""The prompts of one completion, tokenized, and the beginnings of its answers. Not for the event loop."""

from __future__ import annotations

from dataclasses import dataclass

from inference.openai.protocol import CompletionRequest
from inference.parsing.answer_reader import AnswerReader
from inference.parsing.echoed_prompt import EchoedPrompt, EchoedText, echoed_text
from inference.prompting.prompt import PromptTimes
from inference.services.model_catalog import ServedModel


@dataclass(frozen=True, slots=True)
class CompletionPrompt:
    """One of them. `echoed` is what its answers begin with, None where they are not to."""

    model: ServedModel
    request: CompletionRequest
    token_ids: tuple[int, ...]
    echoed: EchoedText | None = None

    @property
    def num_prompt_logprobs(self) -> int | None:
        """What is asked of the prompt's tokens: as of the answer's, where they are in it."""
        return self.request.num_top_logprobs if self.request.is_echo else None

    def reader(self) -> AnswerReader:
        """A completion is text and nothing else. Of several answers the best are known by their scores."""
        request = self.request
        is_scored = request.num_top_logprobs is not None or request.best_of > request.num_choices
        return AnswerReader(
            self.model.tokenizer,
            stops=request.stop or (),
            tracks_tokens=is_scored,
            min_tokens=request.min_tokens,
        )

    def echo(self) -> EchoedPrompt | None:
        if self.echoed is None:
            return None
        return EchoedPrompt(self.model.tokenizer, self.echoed, is_scored=self.num_prompt_logprobs is not None)


def completion_prompts(
    model: ServedModel, request: CompletionRequest, times: PromptTimes
) -> list[CompletionPrompt]:
    """Raises InvalidRequest and ContextLengthExceeded, with param "prompt" or "suffix"."""
    found: list[CompletionPrompt] = []
    num_text_bytes, tokenize_s = 0, 0.0
    for prompt in request.prompts:
        if request.suffix is None:
            token_ids = model.prompts.completion(prompt, times)
        else:
            token_ids = model.prompts.infill(prompt, request.suffix, times)
        num_text_bytes += times.num_text_bytes
        tokenize_s += times.tokenize_s
        echoed = None
        if request.is_echo:
            sent = prompt if isinstance(prompt, str) else None
            echoed = echoed_text(model.tokenizer, token_ids, sent)
        found.append(CompletionPrompt(model, request, token_ids, echoed))
    times.num_text_bytes, times.tokenize_s = num_text_bytes, tokenize_s
    return found
