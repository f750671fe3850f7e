"""Names the one who acts in a request of Django's (admin pages and the management API)."""

from __future__ import annotations

from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.utils.decorators import sync_and_async_middleware

from accounts.actors import Actor, Door, acting


def actor_of(request: HttpRequest) -> Actor:
    """The caller that the management API found, else who is signed in."""
    request_id = getattr(request, "request_id", None)
    caller = getattr(request, "api_caller", None)
    if caller is not None:
        return Actor(Door.API, caller.user_id, caller.username, caller.key_id, request_id)
    user = request.user
    if not user.is_authenticated:
        return Actor(Door.ADMIN, None, "", request_id=request_id)
    return Actor(Door.ADMIN, user.pk, user.get_username(), request_id=request_id)


@sync_and_async_middleware
def actor_middleware(get_response: Any) -> Any:
    """After AuthenticationMiddleware. The user is looked up only if something is changed."""
    if iscoroutinefunction(get_response):

        async def answer_async(request: HttpRequest) -> Any:
            with acting(lambda: actor_of(request)):
                return await get_response(request)

        return answer_async

    def answer(request: HttpRequest) -> Any:
        with acting(lambda: actor_of(request)):
            return get_response(request)

    return answer
