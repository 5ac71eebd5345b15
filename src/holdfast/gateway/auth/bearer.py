"""Bearer tokens: the principal behind a request.

Promises: the bootstrap token is compared in constant time and never stored; other tokens are looked up by
their digest. A wrong, expired or revoked token and a missing one get the same error. A credential is taken
from the header `Authorization` only.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.core.access import Principal
from holdfast.core.errors import Unauthenticated
from holdfast.core.token import BOOTSTRAP, same_secret, token_digest
from holdfast.sync.access.tokens import Tokens

SCHEME: Final = "bearer "
HEADER_CHARS_MAX: Final = 600
BOOTSTRAP_ID: Final = "bootstrap"
"""The key of the bootstrap token where tokens are counted."""


class Authenticated(NamedTuple):
    """A principal, and the credential that it used."""

    principal: Principal
    credential: str
    """The id of the token; never its text."""
    token_id: str | None
    """None for the bootstrap token and for credentials of nodes."""
    digest: str = ""
    """Of the secret, to find it again. Empty for the bootstrap token."""


def secret_of(header: str | None) -> str:
    """The token of a header `Authorization: Bearer <token>`. Unauthenticated if there is none."""
    if header is None:
        raise Unauthenticated(
            "the request has no credential: send the header Authorization: Bearer <token>"
        )
    if len(header) > HEADER_CHARS_MAX or not header.lower().startswith(SCHEME):
        raise Unauthenticated("the header Authorization is not of the form: Bearer <token>")
    return header[len(SCHEME) :].strip()


class Authenticator:
    """Finds the principals of credentials."""

    def __init__(self, tokens: Tokens, *, admin_token: str | None) -> None:
        self._tokens = tokens
        self._admin_token = admin_token

    async def by_secret(self, secret: str) -> Authenticated:
        if self._admin_token is not None and same_secret(secret, self._admin_token):
            return Authenticated(BOOTSTRAP, BOOTSTRAP_ID, None)
        token = await self._tokens.find(secret, used_up=True)
        if token is not None:
            return Authenticated(token.as_principal(), token.id, token.id, token_digest(secret))
        raise Unauthenticated(
            "the token is not valid: it is unknown, expired or revoked; ask an administrator for another"
        )
