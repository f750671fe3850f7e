"""The items that an answer becomes, as they grow: what each is at its beginning and at its end, and the
events in between. An item ends where another kind of text begins, so that the order is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from inference.domain.logprobs import LikelyToken, ScoredToken
from inference.openai.ids import new_item_id

Event = tuple[str, dict[str, Any]]
"""Its name, and its members but for the number and the item's index."""


class MessageItem:
    """What the assistant says."""

    def __init__(self) -> None:
        self.id = new_item_id("msg")
        self._texts: list[str] = []
        self._logprobs: list[dict[str, Any]] = []

    def object(self, status: str) -> dict[str, Any]:
        content = [self._part("".join(self._texts))] if status != "in_progress" else []
        return {"id": self.id, "type": "message", "status": status, "role": "assistant", "content": content}

    def begin(self) -> Iterator[Event]:
        yield "response.content_part.added", {**self._place, "part": self._part("")}

    def add(self, text: str, tokens: Sequence[ScoredToken] = ()) -> Event:
        self._texts.append(text)
        logprobs = [_logprob(token) for token in tokens]
        self._logprobs += logprobs
        return "response.output_text.delta", {
            **self._place,
            "delta": text,
            "logprobs": [_without_bytes(one) for one in logprobs],
        }

    def note(self, text: str) -> None:
        """As `add`, where somebody else writes the event."""
        self._texts.append(text)

    def end(self) -> Iterator[Event]:
        text = "".join(self._texts)
        logprobs = [_without_bytes(one) for one in self._logprobs]
        yield "response.output_text.done", {**self._place, "text": text, "logprobs": logprobs}
        yield "response.content_part.done", {**self._place, "part": self._part(text)}

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": self.id, "content_index": 0}

    def _part(self, text: str) -> dict[str, Any]:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": self._logprobs}


class ReasoningItem:
    """What the model thinks, in clear."""

    def __init__(self) -> None:
        self.id = new_item_id("rs")
        self._texts: list[str] = []

    def object(self, status: str) -> dict[str, Any]:
        content = [self._part("".join(self._texts))] if status != "in_progress" else []
        return {"id": self.id, "type": "reasoning", "status": status, "summary": [], "content": content}

    def begin(self) -> Iterator[Event]:
        yield "response.content_part.added", {**self._place, "part": self._part("")}

    def add(self, text: str) -> Event:
        self._texts.append(text)
        return "response.reasoning_text.delta", {**self._place, "delta": text}

    def end(self) -> Iterator[Event]:
        text = "".join(self._texts)
        yield "response.reasoning_text.done", {**self._place, "text": text}
        yield "response.content_part.done", {**self._place, "part": self._part(text)}

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": self.id, "content_index": 0}

    @staticmethod
    def _part(text: str) -> dict[str, Any]:
        return {"type": "reasoning_text", "text": text}


class CallItem:
    """A function that is to be called."""

    def __init__(self, call_id: str, name: str) -> None:
        self.id = new_item_id("fc")
        self._call_id = call_id
        self._name = name
        self._texts: list[str] = []

    def object(self, status: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": "function_call",
            "status": status,
            "call_id": self._call_id,
            "name": self._name,
            "arguments": "".join(self._texts),
        }

    def begin(self) -> Iterator[Event]:
        yield from ()

    def add(self, text: str) -> Event:
        self._texts.append(text)
        return "response.function_call_arguments.delta", {"item_id": self.id, "delta": text}

    def end(self) -> Iterator[Event]:
        yield (
            "response.function_call_arguments.done",
            {"item_id": self.id, "name": self._name, "arguments": "".join(self._texts)},
        )


OutputItem = MessageItem | ReasoningItem | CallItem


def _logprob(token: ScoredToken) -> dict[str, Any]:
    """The schema's LogProb. Control tokens have no bytes."""
    return {**_token(token), "top_logprobs": [_token(likely) for likely in token.top]}


def _token(token: ScoredToken | LikelyToken) -> dict[str, Any]:
    return {"token": token.text, "logprob": token.logprob, "bytes": list(token.data or b"")}


def _without_bytes(logprob: dict[str, Any]) -> dict[str, Any]:
    """The same as ResponseLogProb, which events have."""
    top = [{"token": one["token"], "logprob": one["logprob"]} for one in logprob["top_logprobs"]]
    return {"token": logprob["token"], "logprob": logprob["logprob"], "top_logprobs": top}
