"""A tiny OpenID Connect provider on this machine: discovery, keys, codes with PKCE, signed ID tokens (RS256).

What it says of a person, and what it does wrong, is set from outside.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT_ID, CLIENT_SECRET = "skippy", "a secret of the client's"


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class OidcProvider:
    """`person` are the claims of who signs in next. `claims`, `userinfo` and `config` are laid over what it
    says; `signs_with` replaces its key; `delay_s` and `status` are of the token endpoint."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.person: dict[str, Any] = {"sub": "1"}
        self.claims: dict[str, Any] = {}
        self.userinfo: dict[str, Any] = {}
        self.config: dict[str, Any] = {}
        self.algorithm = "RS256"
        self.signs_with: Any = None
        self.status = 200
        self.delay_s = 0.0
        self.asked: list[dict[str, str]] = []
        self._key = new_key()
        self._codes: dict[str, dict[str, str]] = {}

    def sign_in(self, authorize_url: str, *, is_absolute: bool = False) -> str:
        """Where a browser is sent back to."""
        assert authorize_url.startswith(f"{self.url}/authorize?"), authorize_url
        asked = dict(parse_qsl(urlsplit(authorize_url).query))
        self.asked.append(asked)
        code = f"code-{len(self.asked)}"
        self._codes[code] = asked
        back = asked["redirect_uri"] if is_absolute else urlsplit(asked["redirect_uri"]).path
        return f"{back}?{urlencode({'code': code, 'state': asked['state']})}"

    def answer(self, method: str, path: str, form: dict[str, str]) -> tuple[int, Any]:
        if path == "/.well-known/openid-configuration":
            return 200, {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "userinfo_endpoint": f"{self.url}/userinfo",
                "jwks_uri": f"{self.url}/keys",
                "token_endpoint_auth_methods_supported": ["client_secret_post"],
                **self.config,
            }
        if path == "/keys":
            public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
            return 200, {"keys": [{**public, "kid": "one", "alg": "RS256", "use": "sig"}]}
        if path == "/userinfo":
            return 200, {"sub": self.person["sub"], **self.userinfo}
        if method == "POST" and path == "/token":
            time.sleep(self.delay_s)
            return self._token(form)
        return 404, {}

    def _token(self, form: dict[str, str]) -> tuple[int, Any]:
        asked = self._codes.pop(form.get("code", ""), None)
        verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(verifier).rstrip(b"=").decode()
        is_client = (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
        if self.status != 200 or asked is None or not is_client or challenge != asked["code_challenge"]:
            return max(self.status, 400), {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 60,
            "nonce": asked.get("nonce"),
            **self.person,
            **self.claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        token = jwt.encode(claims, self.signs_with or self._key, self.algorithm, headers={"kid": "one"})
        return 200, {"access_token": "opaque", "token_type": "Bearer", "id_token": token}


@contextmanager
def oidc_provider() -> Iterator[OidcProvider]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/authorize?"):
                self.send_response(302)
                self.send_header("Location", provider.sign_in(provider.url + self.path, is_absolute=True))
                self.end_headers()
            else:
                self._say("GET", {})

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            self._say("POST", dict(parse_qsl(self.rfile.read(length).decode())))

        def _say(self, method: str, form: dict[str, str]) -> None:
            status, told = provider.answer(method, self.path, form)
            body = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    provider = OidcProvider(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
