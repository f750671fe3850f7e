"""A webhook as an administrator made it, as those need it who call it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

from hooks.contracts.actions import Action

DEFAULT_WEBHOOK_DEADLINE_S = 1.0
MIN_WEBHOOK_DEADLINE_S, MAX_WEBHOOK_DEADLINE_S = 0.001, 30.0
DEFAULT_ANSWER_BYTES, MAX_ANSWER_BYTES = 64 * 1024, 1024 * 1024
DEFAULT_BODY_BYTES, MAX_BODY_BYTES = 1024 * 1024, 8 * 1024 * 1024
DEFAULT_IN_FLIGHT, MAX_IN_FLIGHT = 16, 1000
DEFAULT_RETRIES, MAX_RETRIES = 1, 5
MIN_SECRET_CHARS = 16


class BodyPart(StrEnum):
    """What of a request may go out to a webhook, beside what every call says: point, policy, the request's
    id, endpoint and model, whether it streams, how it ended.

    TEXT: what users wrote, as one string. MESSAGES: every turn and prompt, with tool calls and addresses of
    media. PARAMETERS: parameters, names of tools and of fields, metadata. CALLER: names and ids of user, key
    and team, and the end user that the request names. SIGNALS: how sure the model is. OUTPUT: generated text.
    """

    TEXT = "text"
    MESSAGES = "messages"
    PARAMETERS = "parameters"
    CALLER = "caller"
    SIGNALS = "signals"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class WebhookRights:
    """What a webhook may see, and the types of actions that it may answer with (never CallWebhook: calls
    make no chains). Nothing is allowed that is not named here."""

    parts: frozenset[BodyPart] = frozenset()
    actions: frozenset[type[Action]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WebhookSettings:
    """`secret` signs each call. `deadline_s` is for a whole call, tries included; the policy's own holds,
    too. A request that makes a body of more than `max_body_bytes` is not sent, an answer of more than
    `max_answer_bytes` is not read. `allows_private`: its address may be in a network of ours (never a
    link-local one, where clouds keep their credentials), and its URL plain http.

    Its repr shows neither secret nor URL, whose path often is one.
    """

    webhook_id: int
    name: str
    url: str
    secret: str
    rights: WebhookRights = field(default_factory=WebhookRights)
    deadline_s: float = DEFAULT_WEBHOOK_DEADLINE_S
    max_body_bytes: int = DEFAULT_BODY_BYTES
    max_answer_bytes: int = DEFAULT_ANSWER_BYTES
    max_in_flight: int = DEFAULT_IN_FLIGHT
    max_retries: int = DEFAULT_RETRIES
    allows_private: bool = False

    @property
    def host(self) -> str:
        try:
            return urlsplit(self.url).hostname or ""
        except ValueError:
            return ""

    def __repr__(self) -> str:
        return f"<WebhookSettings {self.webhook_id} {self.name!r} at {self.host}>"
