"""Every way in which a request can fail, as one tree.

    SkippyError                        status  type                    code
    ├── InvalidRequest                 400     invalid_request_error   invalid_value
    │   ├── UnsupportedParameter       400     invalid_request_error   unsupported_parameter
    │   └── ContextLengthExceeded      400     invalid_request_error   context_length_exceeded
    ├── AuthenticationFailed           401     invalid_request_error   invalid_api_key
    ├── PermissionDenied               403     invalid_request_error   permission_denied
    ├── PolicyDenied                   4xx     invalid_request_error   permission_denied (or the policy's)
    ├── NotFound                       404     invalid_request_error   not_found
    │   └── ModelNotFound              404     invalid_request_error   model_not_found
    ├── MethodNotAllowed               405     invalid_request_error   method_not_allowed
    ├── Conflict                       409     invalid_request_error   idempotency_key_in_use
    ├── RequestTimeout                 408     invalid_request_error   request_timeout
    ├── PayloadTooLarge                413     invalid_request_error   payload_too_large
    ├── ServerOverloaded               429     rate_limit_error        server_overloaded
    ├── RateLimitExceeded              429     rate_limit_error        rate_limit_exceeded
    ├── InsufficientQuota              429     insufficient_quota      insufficient_quota
    ├── RequestCancelled               499     invalid_request_error   request_cancelled
    ├── InternalError                  500     server_error            internal_server_error
    ├── GenerationFailed               502     server_error            generation_failed
    ├── ServiceUnavailable             503     server_error            service_unavailable
    │   └── UnderMaintenance           503     server_error            maintenance
    └── GenerationTimeout              504     server_error            timeout

The door turns one of these into the wire's error object; nobody looks at the message to tell them
apart. Messages are for the caller's eyes: no prompt text, no key, no internals.
"""

from __future__ import annotations

from typing import ClassVar

from inference.domain.rejection_reason import RejectionReason


class SkippyError(Exception):
    """A failure that the caller is told about. `param` names the field at fault, if one is.

    `retry_after_s` (whole seconds, at least 1) is set where waiting helps; `should_retry` is False
    where a client library's automatic retry would be useless. `reason` says for the record which of
    admission's rules refused it.
    """

    status: int = 500
    type: ClassVar[str] = "server_error"
    default_code: ClassVar[str] = "internal_server_error"
    default_retry_after_s: ClassVar[int | None] = None

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: int | None = None,
        should_retry: bool = True,
        reason: RejectionReason | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code or self.default_code
        self.retry_after_s = self.default_retry_after_s if retry_after_s is None else retry_after_s
        self.should_retry = should_retry
        self.reason = reason

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message!r}, param={self.param!r}, code={self.code!r})"


class InvalidRequest(SkippyError):
    """The request itself is wrong; sending it again changes nothing."""

    status = 400
    type = "invalid_request_error"
    default_code = "invalid_value"


class UnsupportedParameter(InvalidRequest):
    """A parameter that we know and do not serve, whose silent loss would change the result."""

    default_code = "unsupported_parameter"


class ContextLengthExceeded(InvalidRequest):
    """The prompt can never fit, however long it waits."""

    default_code = "context_length_exceeded"


class AuthenticationFailed(SkippyError):
    """No key, or one that does not open anything."""

    status = 401
    type = "invalid_request_error"
    default_code = "invalid_api_key"


class PermissionDenied(SkippyError):
    """A valid key that may not do this."""

    status = 403
    type = "invalid_request_error"
    default_code = "permission_denied"


class PolicyDenied(SkippyError):
    """A policy of an administrator refuses it, with a status (400 to 499), a message and a code of
    its own."""

    type = "invalid_request_error"
    default_code = "permission_denied"

    status = 403

    def __init__(
        self, message: str, *, status: int = 403, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(message, param=param, code=code, should_retry=False)
        self.status = status


class NotFound(SkippyError):
    """No such path."""

    status = 404
    type = "invalid_request_error"
    default_code = "not_found"


class ModelNotFound(NotFound):
    """No such model, or none that this key may use: the two look the same on purpose."""

    default_code = "model_not_found"


class MethodNotAllowed(SkippyError):
    """The path exists, but not for this method."""

    status = 405
    type = "invalid_request_error"
    default_code = "method_not_allowed"


class Conflict(SkippyError):
    """Another request of the same name runs, or has been answered: this one is not run again."""

    status = 409
    type = "invalid_request_error"
    default_code = "idempotency_key_in_use"


class RequestTimeout(SkippyError):
    """The client took too long to send its request."""

    status = 408
    type = "invalid_request_error"
    default_code = "request_timeout"


class PayloadTooLarge(SkippyError):
    """The body is over the limit, by its Content-Length or by count."""

    status = 413
    type = "invalid_request_error"
    default_code = "payload_too_large"


class ServerOverloaded(SkippyError):
    """More work is waiting than may wait; later there is room again."""

    status = 429
    type = "rate_limit_error"
    default_code = "server_overloaded"
    default_retry_after_s = 1


class RateLimitExceeded(SkippyError):
    """More than this caller may have in a minute, or at once; waiting helps."""

    status = 429
    type = "rate_limit_error"
    default_code = "rate_limit_exceeded"
    default_retry_after_s = 1


class InsufficientQuota(SkippyError):
    """This caller's token budget does not pay for it; waiting a little does not help."""

    status = 429
    type = "insufficient_quota"
    default_code = "insufficient_quota"
    default_retry_after_s = 300


class RequestCancelled(SkippyError):
    """Somebody other than the client ended the request."""

    status = 499
    type = "invalid_request_error"
    default_code = "request_cancelled"


class InternalError(SkippyError):
    """A fault of ours. The message says nothing; the log has the rest under the request's id."""


class GenerationFailed(SkippyError):
    """The engine could not go on with this sequence; others are not concerned."""

    status = 502
    type = "server_error"
    default_code = "generation_failed"


class ServiceUnavailable(SkippyError):
    """Loading, draining, engine dead or database away: the service as a whole cannot answer now."""

    status = 503
    type = "server_error"
    default_code = "service_unavailable"
    default_retry_after_s = 5


class UnderMaintenance(ServiceUnavailable):
    """An administrator has closed the service to newcomers; the message is his."""

    default_code = "maintenance"


class GenerationTimeout(SkippyError):
    """The request's own time limit ran out."""

    status = 504
    type = "server_error"
    default_code = "timeout"
