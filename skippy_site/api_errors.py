"""Whatever goes wrong under /api/ is told in the error object of /v1, with its status and its codes.

DRF's own answers (`{"detail": …}`), Django's HTML pages and a bare 500 would each be one more shape for
clients to know. Messages are for the caller's eyes: what the database says is not among them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, RequestDataTooBig
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.exceptions import ValidationError as DjangoValidationError
from django.db import IntegrityError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template import loader
from django.views import defaults
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.settings import api_settings

from accounts.keys import without_keys
from hooks.contracts.refusals import AlreadyTaken, HookRefusal, NotThere
from inference.domain.errors import SkippyError

_log = logging.getLogger(__name__)

API_PREFIX = "/api/"
RETRY_AFTER_S = 5
_INVALID = "invalid_request_error"
_CODES = {
    400: "invalid_value",
    401: "invalid_api_key",
    403: "permission_denied",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    412: "precondition_failed",
    413: "payload_too_large",
    415: "unsupported_media_type",
    429: "rate_limit_exceeded",
    500: "internal_server_error",
    503: "service_unavailable",
}
# Codes of 401 that say more than that the key is not good.
_KEPT_CODES = frozenset({"api_key_expired", "api_key_revoked", "account_inactive"})
NOT_FOUND = "There is nothing here."
INTERNAL = "The server had an internal error."


def error_body(
    status: int, message: str, *, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """The object that OpenAI's clients understand. A key that was sent where a field was meant is not
    sent back, since answers are logged by others."""
    kind = "server_error" if status >= 500 else "rate_limit_error" if status == 429 else _INVALID
    return {
        "error": {
            "message": without_keys(message),
            "type": kind,
            "param": None if param is None else without_keys(param),
            "code": code or _CODES.get(status, "invalid_value"),
        }
    }


def exception_handler(error: Exception, context: Mapping[str, Any]) -> Response:
    """For every exception of a view of DRF's; what nobody expected is logged under the request's id."""
    match error:
        case exceptions.ValidationError():
            param, message = _first(error.detail)
            return _response(400, message, param=param)
        case DjangoValidationError():
            param, message = _of_django(error)
            return _response(400, message, param=param)
        case SkippyError() | HookRefusal():
            return _of_ours(error)
        case Http404() | exceptions.NotFound():
            return _response(404, NOT_FOUND)
        case DjangoPermissionDenied():
            return _response(403, str(error) or exceptions.PermissionDenied.default_detail)
        case RequestDataTooBig():
            return _response(413, "The request body is too large.")
        case exceptions.Throttled():
            wait_s = error.wait or 1
            return _response(429, str(error.detail), headers={"Retry-After": str(int(wait_s))})
        case exceptions.NotAuthenticated() | exceptions.AuthenticationFailed():
            code = error.get_codes()
            headers = {"WWW-Authenticate": "Bearer"}
            kept = code if code in _KEPT_CODES else None
            return _response(401, _sentence_of_401(error), code=kept, headers=headers)
        case exceptions.APIException():
            return _response(error.status_code, str(error.detail))
        case IntegrityError():
            return _response(409, "Somebody else changed the same thing just now. Read it again, and retry.")
        case OperationalError() | InterfaceError():
            _log.warning("the database could not be asked: %s", type(error).__name__)
            headers = {"Retry-After": str(RETRY_AFTER_S)}
            return _response(503, "The database cannot be reached. Please retry shortly.", headers=headers)
        case _:
            request = context["request"]
            _log.error("request %s failed", getattr(request, "request_id", "?"), exc_info=error)
            return _response(500, INTERNAL)


def _response(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    body = error_body(status, message, param=param, code=code)
    return Response(body, status=status, headers=dict(headers or {}))


def _sentence_of_401(error: exceptions.APIException) -> str:
    from accounts.refusals import NO_KEY

    return NO_KEY if isinstance(error, exceptions.NotAuthenticated) else str(error.detail)


def _first(detail: Any, path: str = "") -> tuple[str | None, str]:
    """The first thing that is wrong, and the dotted path of the field at fault."""
    while True:
        if isinstance(detail, Mapping) and detail:
            name, detail = next(iter(detail.items()))
            if name != api_settings.NON_FIELD_ERRORS_KEY:
                path = f"{path}.{name}" if path else str(name)
        elif isinstance(detail, Sequence) and not isinstance(detail, str) and detail:
            detail = next((one for one in detail if one), detail[0])
        else:
            return path or None, str(detail)


def _of_ours(error: SkippyError | HookRefusal) -> Response:
    if isinstance(error, SkippyError):
        return _response(error.status, error.message, param=error.param, code=error.code)
    if isinstance(error, NotThere):
        return _response(404, NOT_FOUND)
    status = 409 if isinstance(error, AlreadyTaken) else 400
    return _response(status, error.message, param=error.field)


def _of_django(error: DjangoValidationError) -> tuple[str | None, str]:
    if not hasattr(error, "error_dict"):
        return None, error.messages[0]
    name, messages = next(iter(error.message_dict.items()))
    return (None if name == NON_FIELD_ERRORS else name), messages[0]


# -- for what never reaches a view of DRF's ------------------------------------------------------------


def _is_api(request: HttpRequest) -> bool:
    return request.path_info.startswith(API_PREFIX)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler400: a host that is not ours, a body that Django itself refuses."""
    if _is_api(request):
        return JsonResponse(error_body(400, "The request cannot be read."), status=400)
    return defaults.bad_request(request, exception)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler404: paths that nobody has."""
    if _is_api(request):
        return JsonResponse(error_body(404, NOT_FOUND), status=404)
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """handler500: what failed before or after a view of DRF's."""
    if _is_api(request):
        return JsonResponse(error_body(500, INTERNAL), status=500)
    if isinstance(sys.exc_info()[1], OperationalError | InterfaceError):
        return _database_away()
    return defaults.server_error(request)


def _database_away() -> HttpResponse:
    """A page that asks nothing of the request: who is signed in stands in the database, too."""
    page = loader.get_template("503.html").render()
    headers = {"Retry-After": str(RETRY_AFTER_S), "Cache-Control": "no-store"}
    return HttpResponse(page, status=503, headers=headers)
