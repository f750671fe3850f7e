"""Every answer of Django's, too, has an x-request-id, by which people, logs and the history speak of it."""

from __future__ import annotations

from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.utils.decorators import sync_and_async_middleware

from inference.openai.request_ids import HEADER, request_id

_NAME = HEADER.decode()


@sync_and_async_middleware
def request_id_middleware(get_response: Any) -> Any:
    """A UUID that the caller sends is kept, as under /v1."""

    def named(request: HttpRequest) -> str:
        given = request.headers.get(_NAME)
        request.request_id = request_id(None if given is None else given.encode("latin-1", "replace"))
        return request.request_id  # type: ignore[no-any-return]

    if iscoroutinefunction(get_response):

        async def answer_async(request: HttpRequest) -> Any:
            name = named(request)
            response = await get_response(request)
            response[_NAME] = name
            return response

        return answer_async

    def answer(request: HttpRequest) -> Any:
        name = named(request)
        response = get_response(request)
        response[_NAME] = name
        return response

    return answer
