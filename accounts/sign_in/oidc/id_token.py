"""Reads an ID token: whose word it is, for whom, and whether it answers this very request.

allauth skips the signature where the token came straight from the provider, and asks for no nonce. Both are
cheap, and a proxy between us and the provider, or a token of another sign-in, is what they are for (OpenID
Connect Core 1.0, 3.1.3.7).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jwt
from django.utils.crypto import constant_time_compare

# Signatures with the provider's own key pair. Never "none", nor one with a secret that both have.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
LEEWAY_S = 60


class IdTokenRefused(Exception):
    """The token does not say what it must; the message says what is wrong, without what it holds."""


def id_token_read(
    token: str, keys: Mapping[str, Any], *, issuer: str, client_id: str, nonce: str
) -> dict[str, Any]:
    """The claims. `keys` is the provider's JSON Web Key Set. Raises IdTokenRefused."""
    try:
        header = jwt.get_unverified_header(token)
        if header.get("alg") not in ALGORITHMS:
            raise IdTokenRefused("its signature is of a kind that is not taken")
        key = _key_of(keys, header)
        claims: dict[str, Any] = jwt.decode(
            token,
            key=key.key,
            algorithms=[header["alg"]],
            issuer=issuer,
            audience=client_id,
            leeway=LEEWAY_S,
            options={"require": ["iss", "sub", "aud", "exp", "iat"]},
        )
    except jwt.PyJWTError as problem:
        raise IdTokenRefused(f"it is not good: {type(problem).__name__}") from None
    if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and claims.get("azp") != client_id:
        raise IdTokenRefused("it is for somebody else, too")
    if not nonce or not constant_time_compare(str(claims.get("nonce", "")), nonce):
        raise IdTokenRefused("it does not answer this request")
    return claims


def _key_of(keys: Mapping[str, Any], header: Mapping[str, Any]) -> jwt.PyJWK:
    """The key that the token names; where it names none, the only one."""
    found = [
        key
        for key in jwt.PyJWKSet.from_dict(dict(keys)).keys
        if key.public_key_use in (None, "sig") and ("kid" not in header or key.key_id == header["kid"])
    ]
    if len(found) != 1:
        raise IdTokenRefused("the provider has no such key")
    return found[0]
