"""Who may find whose prompts in the prefix cache.

A hit answers faster, so whoever can hit on another one's cells can find out what that one asked, by
guessing it. Users are therefore kept apart, unless the administrator says that they need not be.
"""

from __future__ import annotations

from inference.domain.adapters import AdapterSet, adapter_namespace


def cache_namespace(
    *, user_id: int, prompt_cache_key: str | None, is_shared: bool, adapters: AdapterSet = ()
) -> str:
    """The namespace of a request. `is_shared`: users share prefixes. Requests with different
    `prompt_cache_key`s never do (a blank one is none), nor those with different adapters.

    Ids are digits and come first, so that no key can be made to look like another user; and a key has its
    length beside it, so that none looks like a shorter one with adapters.
    """
    owner = "all" if is_shared else f"user {user_id}"
    key = (prompt_cache_key or "").strip()
    named = f"{owner}, key {len(key)} {key}" if key else owner
    return named + adapter_namespace(adapters)
