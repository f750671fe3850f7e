"""Requests with every option, mixed at random, whose answers can be known beforehand.

A mark is a token of the request's own with a logit bias of +100: whatever the other options are, the
answer is that token again and again, and a piece of somebody else's answer would show. What makes
likely tokens unlikely (penalties without bound, DRY) takes the mark's certainty away: such requests
come unmarked, and only the shape of their answers is checked.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from inference.domain.tokenizer import Tokenizer

BIAS = 100
SHARED_BEGINNING = "You are one of many. Answer with a single word, and say it as often as you can. " * 5
# The service takes over a request's id where it is a UUID; its first digits tell a request's fate.
PLAIN = "00000000"
CLOSED = "c105ed00"  # its client goes away
POISONED = "dead0000"  # the model cannot compute it


@dataclass(frozen=True, slots=True)
class MixedRequest:
    """One request and what is known of its answer; `text` is None where that cannot be known."""

    id: str
    path: str
    body: dict[str, Any]
    user: int
    closes_after_frames: int | None = None
    closes_after_s: float | None = None
    text: str | None = None

    @property
    def payload(self) -> bytes:
        return json.dumps(self.body).encode()

    @property
    def is_stream(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def is_closed(self) -> bool:
        return self.id.startswith(CLOSED)

    @property
    def is_poisoned(self) -> bool:
        return self.id.startswith(POISONED)


def marks(tokenizer: Tokenizer, count: int) -> list[int]:
    """Tokens that are whole words of their own letters, so that no two begin alike by accident."""
    found = []
    for token_id, piece in enumerate(tokenizer.pieces):
        if len(piece) > 5 and piece[:1] == b" " and piece[1:].isalpha() and piece.isascii():
            found.append(token_id)
    step = len(found) // count
    assert step, "the vocabulary is too small"
    return found[: step * count : step]


def _id(fate: str, number: int) -> str:
    return f"{fate}-0000-4000-8000-{number:012x}"


def _some(rng: random.Random, options: dict[str, Sequence[Any]], chance: float) -> dict[str, Any]:
    return {name: rng.choice(values) for name, values in options.items() if rng.random() < chance}


# What never makes a token that is far ahead of all others less than certain.
_HARMLESS: dict[str, Sequence[Any]] = {
    "temperature": [0, 0.2, 0.8, 1, 1.7],
    "seed": [0, 1, -1, 2**40, 7],
    "presence_penalty": [-2, 0, 1.5],
    "repeat_last_n": [-1, 0, 8],
    "min_tokens": [0, 1, 5],
    "ignore_eos": [True, False],
    "metadata": [{"a": "b"}],
    "user": ["somebody"],
    "service_tier": ["auto"],
    "prompt_cache_key": ["one", "two"],
}
_CUTS: dict[str, Sequence[Any]] = {
    "top_p": [0.3, 0.95, 1],
    "top_k": [0, 1, 40, 1000],
    "min_p": [0, 0.05, 0.5],
    "typical_p": [0.5, 1],
    "top_n_sigma": [-1, 1.5, 3],
    "xtc_probability": [0, 1],
    "xtc_threshold": [0.1, 0.4],
}
_BENDING: dict[str, Sequence[Any]] = {
    "repeat_penalty": [0.5, 1, 1.3, 5],
    "frequency_penalty": [-2, 0, 2],
    "presence_penalty": [-2, 0, 2],
    "dry_multiplier": [0, 0.8],
    "dry_base": [1.75],
    "dry_allowed_length": [1, 2],
    "dry_penalty_last_n": [-1, 0, 64],
    "dry_sequence_breakers": [["\n"], [".", ":"]],
}
_STAGES: Sequence[dict[str, Any]] = (
    {"samplers": ["top_k", "min_p", "temperature"], "top_k": 20, "min_p": 0.1},
    {"samplers": ["temperature", "top_p", "penalties"], "top_p": 0.9, "presence_penalty": 0.5},
    {"sampler_sequence": "kpt", "top_k": 5},
)


def _sampling(rng: random.Random, *, is_marked: bool) -> dict[str, Any]:
    """A valid combination: options that would have no effect beside others are refused."""
    options = _some(rng, _HARMLESS, 0.25)
    kind = rng.random()
    if kind < 0.15:
        options.pop("presence_penalty", None)
        options.update(rng.choice(_STAGES))
        options.pop("temperature", None)
        return options
    if kind < 0.3:
        options["mirostat_mode"] = rng.choice([1, 2])
        options.update(_some(rng, {"mirostat_entropy": [3, 8], "mirostat_learning_rate": [0.1, 0.5]}, 0.5))
        if options.get("temperature") == 0:
            options["temperature"] = 0.6
    else:
        options.update(_some(rng, _CUTS, 0.3))
        if rng.random() < 0.2 and options.get("temperature") != 0:
            options["dynatemp_range"] = rng.choice([0.3, 0.5])
            options["dynatemp_exponent"] = rng.choice([0.5, 1, 2])
    if not is_marked:
        options.update(_some(rng, _BENDING, 0.4))
    return options


class RequestMix:
    """Makes `count` requests, always the same ones for the same seed."""

    def __init__(self, tokenizer: Tokenizer, *, model: str, num_users: int, seed: int) -> None:
        self._tokenizer = tokenizer
        self._model = model
        self._num_users = num_users
        self._rng = random.Random(seed)

    def make(self, count: int) -> list[MixedRequest]:
        words = marks(self._tokenizer, count)
        self._rng.shuffle(words)
        return [self._one(number, mark) for number, mark in enumerate(words)]

    def _one(self, number: int, mark: int) -> MixedRequest:
        rng = self._rng
        is_marked = rng.random() < 0.7
        piece = self._tokenizer.pieces[mark].decode()
        max_tokens = rng.choice([1, 2, 6, 12, 20])
        body: dict[str, Any] = {"model": self._model, "max_tokens": max_tokens}
        body.update(_sampling(rng, is_marked=is_marked))
        body["min_tokens"] = min(body.get("min_tokens", 0), max_tokens)
        text = None
        if is_marked:
            body["logit_bias"] = {str(mark): BIAS}
            text = piece * max_tokens
        elif rng.random() < 0.3:
            body["logit_bias"] = {str(rng.randrange(1000)): rng.choice([-100, -1, 3])}
        if rng.random() < 0.2:
            stop = [piece * 3, "never to be found"] if rng.random() < 0.7 else piece[1:]
            body["stop"] = stop
            num_unwatched = body["min_tokens"] * len(piece)
            if text is not None:
                watched = text[num_unwatched:].split(stop if isinstance(stop, str) else stop[0])[0]
                text = text[:num_unwatched] + watched
        if rng.random() < 0.4:
            body["stream"] = True
            if rng.random() < 0.6:
                body["stream_options"] = {"include_usage": True}
        beginning = SHARED_BEGINNING if rng.random() < 0.4 else ""
        question = f"{beginning}Number {number}: {'word ' * rng.choice([0, 3, 30])}"
        is_chat = rng.random() < 0.6
        if is_chat:
            body["messages"] = [{"role": "user", "content": question}]
            if rng.random() < 0.3:
                body |= {"logprobs": True, "top_logprobs": rng.choice([0, 1, 20])}
        else:
            body["prompt"] = question if rng.random() < 0.8 else [100 + number % 900, 101, 102]
            if rng.random() < 0.3:
                body["logprobs"] = rng.choice([0, 2, 5])
        path = "/v1/chat/completions" if is_chat else "/v1/completions"
        made = MixedRequest(_id(PLAIN, number), path, body, rng.randrange(self._num_users), text=text)
        return self._with_fate(made, number)

    def _with_fate(self, made: MixedRequest, number: int) -> MixedRequest:
        """One in seven is left by its client, one in thirty makes the batch fail that it is in."""
        rng = self._rng
        fate = rng.random()
        if fate < 0.08 and made.is_stream:
            return replace(made, id=_id(CLOSED, number), closes_after_frames=rng.randrange(6))
        if fate < 0.14:
            return replace(
                made, id=_id(CLOSED, number), closes_after_s=rng.choice([0, 0.001, 0.01, 0.05, 0.2])
            )
        if fate < 0.175:
            return replace(made, id=_id(POISONED, number))
        return made
