import itertools

import pytest

from inference.services.cache_namespace import cache_namespace


def namespace(user_id=1, key=None, *, is_shared=False):
    return cache_namespace(user_id=user_id, prompt_cache_key=key, is_shared=is_shared)


def test_users_are_kept_apart_whatever_key_they_give():
    keys = (None, "k", "1", "user 2", "2, key k", "k, key k", ", key k")
    seen = {}
    for user_id, key in itertools.product((1, 2, 12, 21), keys):
        found = namespace(user_id, key)
        assert seen.setdefault(found, (user_id, key)) == (user_id, key)


@pytest.mark.parametrize("blank", [None, "", " ", "\t\n "])
def test_a_blank_key_is_none(blank):
    assert namespace(1, blank) == namespace(1)


def test_a_key_is_trimmed_and_keys_do_not_share():
    assert namespace(1, "  k ") == namespace(1, "k")
    assert len({namespace(1), namespace(1, "k"), namespace(1, "K"), namespace(1, "k k")}) == 4


def test_where_it_is_allowed_users_share_but_keys_still_do_not():
    assert namespace(1, is_shared=True) == namespace(2, is_shared=True)
    assert namespace(1, "k", is_shared=True) == namespace(2, "k", is_shared=True)
    assert namespace(1, "k", is_shared=True) != namespace(1, "j", is_shared=True)
    assert namespace(1, "k", is_shared=True) != namespace(1, is_shared=True)
