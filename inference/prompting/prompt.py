"""Messages or a prompt to the token ids that the engine starts from.

    conversation → template (template_library.py) → tools in words, where it has none (tool_emulation.py)
    → turns as it takes them (template_turns.py) → text (chat_rendering.py) → segments → token ids

Two promises are kept here. Nothing that a caller wrote becomes a control token: messages are cut
apart where they could (control_text.py), completion prompts are tokenized as plain text. (Token ids
that a client sends as such are taken as they are: that is what they are for.) And what cannot fit
the context is a 400 before it costs anything: by its bytes before the template and the tokenizer,
by its tokens after.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from inference.domain.chat_prompt import ChatPrompt
from inference.domain.conversation import Conversation
from inference.domain.errors import InvalidRequest, UnsupportedParameter
from inference.domain.media import MediaPiece
from inference.domain.media_run import MediaPlace
from inference.domain.model import ModelDescription
from inference.domain.tokenizer import Tokenizer
from inference.prompting.chat_rendering import render_chat
from inference.prompting.chat_template import CHATML, CHATML_CONTROL_TEXTS, ChatTemplate
from inference.prompting.control_text import ControlTexts, PromptMarks, Segment
from inference.prompting.infill import infill_prompt
from inference.prompting.media_places import check_all_placed, cut_at_marks, put_media
from inference.prompting.template_library import PreparedTemplate, TemplateLibrary
from inference.prompting.template_turns import with_one_system_role
from inference.prompting.text_size import text_bytes
from inference.prompting.token_limit import check_prompt_fits, check_text_fits
from inference.prompting.tool_emulation import emulate_tools, has_tool_turns

_MIN_RENDER_CHARS = 1024 * 1024
_MAX_RENDER_CHARS = 64 * 1024 * 1024
_SEAM = "\n"


@dataclass(slots=True)
class PromptTimes:
    """Where the time for one prompt went, in seconds, and the size of its text in UTF-8; filled in by
    the builder. A completion has no template."""

    template_s: float | None = None
    num_text_bytes: int = 0
    tokenize_s: float = 0.0


def _all(template_source: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPolicy:
    """What an administrator, and the reader of answers, have to say about prompts.

    `template_source` takes the place of all templates of the model's file.
    `reads_tool_calls` tells for a template's source whether calls in the answers to it are understood;
    where they are not, tools are emulated. `forces_tool_emulation`: they are everywhere.
    """

    template_source: str | None = None
    allows_request_templates: bool = False
    forces_tool_emulation: bool = False
    reads_tool_calls: Callable[[str], bool] = _all


class PromptBuilder:
    """Makes prompts for one model. Thread-safe; its methods take milliseconds to seconds for long
    texts and belong on a thread pool."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        description: ModelDescription,
        *,
        policy: PromptPolicy | None = None,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        """Raises UnusableTemplate where the model's template is broken or unsafe.

        A model without a template gets ChatML if its vocabulary has ChatML's control tokens;
        otherwise it has no chat, and `chat` says so.
        """
        self._tokenizer = tokenizer
        self._policy = policy or PromptPolicy()
        self._max_request_tokens = description.max_request_tokens
        self._bos_text = description.bos_text
        # Twice what could fit: room for the template's own strings, which are made of its parts.
        could_fit = tokenizer.max_piece_bytes * description.max_request_tokens
        max_chars = max(_MIN_RENDER_CHARS, min(2 * could_fit, _MAX_RENDER_CHARS))
        sources = dict(description.chat_templates)
        if self._policy.template_source is not None:
            sources = {"default": self._policy.template_source}
        if not sources and CHATML_CONTROL_TEXTS.issubset(tokenizer.special_texts):
            sources = {"default": CHATML}
        self._templates = TemplateLibrary(
            sources,
            compile=lambda source: ChatTemplate(
                source,
                bos_text=description.bos_text,
                eos_text=description.eos_text,
                max_chars=max_chars,
                now=now,
            ),
            controls=ControlTexts(tokenizer.special_texts),
            allows_others=self._policy.allows_request_templates,
        )
        self._seam_ids = self._ids_of_seam()

    @property
    def has_chat(self) -> bool:
        return not self._templates.is_empty

    def chat(
        self,
        conversation: Conversation,
        times: PromptTimes | None = None,
        *,
        media: Mapping[str, Sequence[MediaPiece]] | None = None,
        must_fit: bool = True,
    ) -> ChatPrompt:
        """The prompt of a conversation; `media` is what stands for each of its pictures and sounds, by
        mark. Raises InvalidRequest (the template's objections) and
        ContextLengthExceeded, with param "messages"; InvalidRequest with param "chat_template" where
        the request's own is at fault. Fills in `times`. Without `must_fit`, only the template's bounds
        hold, for those who want to know how long it is."""
        parts = [part for message in conversation.messages for part in message.media]
        messages = with_one_system_role(conversation.messages)
        if must_fit:
            self.check_size(sum(text_bytes(message.content or "") for message in messages), param="messages")
        began_ts = time.monotonic()
        prepared = self._templates.choose(conversation)
        conversation = replace(conversation, messages=messages)
        needs_emulation = self._needs_emulation(prepared, conversation)
        is_emulated = needs_emulation and bool(conversation.tool_use.callable_tools)
        if needs_emulation:
            conversation = emulate_tools(conversation)
        marks = PromptMarks(prepared.controls)
        try:
            rendered = render_chat(prepared, conversation, marks)
        except InvalidRequest as error:
            param = error.param if conversation.template.source is None else "chat_template"
            raise type(error)(marks.unmarked(error.message), param=param) from None
        pieces = media or {}
        segments = cut_at_marks(marks.segments(rendered.text), pieces)
        num_bytes = sum(text_bytes(segment.text) for segment in segments)
        if must_fit:
            self.check_size(num_bytes, param="messages")
        rendered_ts = time.monotonic()
        places: list[MediaPlace] = []
        ids = self._ids(segments, pieces, places)
        check_all_placed(parts, places)
        if times is not None:
            times.template_s = rendered_ts - began_ts
            times.num_text_bytes = num_bytes
            times.tokenize_s = time.monotonic() - rendered_ts
        return ChatPrompt(
            token_ids=self._checked(ids, "messages", must_fit=must_fit),
            answer_begin=marks.unmarked(rendered.answer_begin),
            template_source=prepared.source,
            is_emulated=is_emulated,
            media=tuple(places),
            boundary=self._boundary(ids, marks.segments(rendered.answer_begin)),
        )

    def _needs_emulation(self, prepared: PreparedTemplate, conversation: Conversation) -> bool:
        """The conversation has to do with tools, and the template or the reader of answers has not."""
        has_tools = bool(conversation.tool_use.tools)
        if not has_tools and not has_tool_turns(conversation.messages):
            return False
        if has_tools and self._policy.forces_tool_emulation:
            return True
        return not (prepared.traits.has_tools and self._policy.reads_tool_calls(prepared.source))

    def completion(self, prompt: str | tuple[int, ...], times: PromptTimes | None = None) -> tuple[int, ...]:
        """The prompt of a completion: text as plain text, with BOS where the model wants it; ids as
        they are. Raises InvalidRequest and ContextLengthExceeded, with param "prompt"."""
        if not isinstance(prompt, str):
            self.check_token_ids(prompt)
            return self._checked(prompt, "prompt")
        if not prompt:
            raise InvalidRequest("Invalid 'prompt': it must not be empty.", param="prompt")
        self.check_size(text_bytes(prompt), param="prompt")
        began_ts = time.monotonic()
        ids = self._tokenizer.tokenize(prompt, add_special=True, parse_special=False)
        if times is not None:
            times.num_text_bytes = text_bytes(prompt)
            times.tokenize_s = time.monotonic() - began_ts
        return self._checked(tuple(ids), "prompt")

    def infill(self, prompt: str | tuple[int, ...], suffix: str, times: PromptTimes) -> tuple[int, ...]:
        """The prompt for what is missing between `prompt` and `suffix`. Raises as `completion`, and with
        param "suffix" where the model cannot fill in."""
        tokens = self._tokenizer.infill
        if tokens is None:
            raise UnsupportedParameter(
                "'suffix' is not supported by this model: it has no tokens for filling in.", param="suffix"
            )
        num_bytes = text_bytes(suffix) + (text_bytes(prompt) if isinstance(prompt, str) else 0)
        self.check_size(num_bytes, param="prompt")
        began_ts = time.monotonic()
        behind = self._tokenizer.tokenize(suffix, add_special=False, parse_special=False)
        if isinstance(prompt, str):
            before = self._tokenizer.tokenize(prompt, add_special=False, parse_special=False)
        else:
            self.check_token_ids(prompt)
            before = list(prompt)
        times.num_text_bytes = num_bytes
        times.tokenize_s = time.monotonic() - began_ts
        return self._checked(infill_prompt(tokens, before, behind), "prompt")

    def check_size(self, num_bytes: int, *, param: str) -> None:
        """Raise ContextLengthExceeded for texts that cannot fit, by their UTF-8 bytes alone."""
        check_text_fits(
            num_bytes,
            max_piece_bytes=self._tokenizer.max_piece_bytes,
            max_request_tokens=self._max_request_tokens,
            param=param,
        )

    def check_token_ids(self, token_ids: Sequence[int]) -> None:
        """Raise InvalidRequest unless every id is in the vocabulary."""
        if token_ids and not 0 <= min(token_ids) <= max(token_ids) < self._tokenizer.num_tokens:
            raise InvalidRequest(
                f"Invalid 'prompt': token ids must be between 0 and {self._tokenizer.num_tokens - 1}.",
                param="prompt",
            )

    def _checked(self, ids: tuple[int, ...], param: str, *, must_fit: bool = True) -> tuple[int, ...]:
        """The engine must never be given nothing: there would be nothing to take logits from."""
        if not ids:
            raise InvalidRequest(f"Invalid '{param}': it makes a prompt of no tokens.", param=param)
        if must_fit:
            check_prompt_fits(len(ids), max_request_tokens=self._max_request_tokens, param=param)
        return ids

    def _ids(
        self,
        segments: Sequence[Segment],
        media: Mapping[str, Sequence[MediaPiece]],
        places: list[MediaPlace],
    ) -> tuple[int, ...]:
        """Tokenize a prompt in its segments; adds to `places` where rows of embeddings stand.

        BOS is added where the vocabulary wants one and the template has not written it (as
        llama.cpp does: a second BOS would harm, and so would none).
        """
        ids: list[int] = []
        for index, segment in enumerate(segments):
            is_first = index == 0
            if segment.mark:
                if is_first:
                    ids += self._tokenizer.tokenize("", add_special=True, parse_special=False)
                ids += put_media(segment.mark, media[segment.mark], len(ids), places)
                continue
            add_bos = is_first and not (self._bos_text and segment.text.startswith(self._bos_text))
            if is_first or not self._seam_ids:
                ids += self._tokenizer.tokenize(
                    segment.text, add_special=add_bos, parse_special=not segment.is_plain
                )
            else:
                ids += self._continued(segment)
        return tuple(ids)

    def _boundary(self, ids: tuple[int, ...], answer_begin: Sequence[Segment]) -> int:
        """How many tokens come before the answer's beginning, if that is the end of `ids` by itself: so it
        is where it begins with a control token. 0: nobody knows."""
        end: list[int] = []
        for segment in answer_begin:
            end += self._tokenizer.tokenize(
                segment.text, add_special=False, parse_special=not segment.is_plain
            )
        is_there = bool(end) and len(end) < len(ids) and ids[-len(end) :] == tuple(end)
        return len(ids) - len(end) if is_there else 0

    def _continued(self, segment: Segment) -> list[int]:
        """A segment that continues a word, in a vocabulary that begins each text with a space.

        SentencePiece models with `add_space_prefix` read "foo" as " foo". Behind a line break there
        is no such space: tokenize one in front, and take its tokens away again.
        """
        ids = self._tokenizer.tokenize(
            _SEAM + segment.text, add_special=False, parse_special=not segment.is_plain
        )
        size = len(self._seam_ids)
        if ids[:size] == self._seam_ids:
            return ids[size:]
        # The break was merged with what follows: one space too many is the lesser evil.
        return self._tokenizer.tokenize(segment.text, add_special=False, parse_special=not segment.is_plain)

    def _ids_of_seam(self) -> list[int]:
        """The tokens of a lone line break, in a vocabulary that puts a space before every text; [] in
        one that does not."""
        tokenizer = self._tokenizer
        ids = tokenizer.tokenize("a", add_special=False, parse_special=False)
        if not b"".join(tokenizer.pieces[one] for one in ids).startswith(b" "):
            return []
        return tokenizer.tokenize(_SEAM, add_special=False, parse_special=False)
