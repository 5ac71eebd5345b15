"""Access tokens: their text, what is stored of them, how they are shown, and when they count.

A token is `hf_<kind>_` and 43 characters, which carry 256 random bits. The store keeps its SHA-256 digest.
Promises: a comparison of secrets takes the same time wherever they differ; no message and no mask has a part
of a secret. Never: makes randomness. The bytes are an argument.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from enum import StrEnum
from ipaddress import ip_address
from typing import Final

import msgspec

from holdfast.core.access import ALL_PROJECTS, Principal
from holdfast.core.rights import Operation, PrincipalKind, Role
from holdfast.errors import BadConfig

JOIN_SECONDS_MAX: Final = 7 * 86_400.0
"""The longest lifetime of a join token."""
SECRET_BYTES: Final = 32
SECRET_CHARS: Final = 43
BOOTSTRAP_CHARS_MIN: Final = 32
BOOTSTRAP_CHARS_MAX: Final = 500
HIDDEN: Final = "***"
_TOKEN: Final = re.compile(rf"hf_([a-z]+)_([A-Za-z0-9_-]{{{SECRET_CHARS}}})")
_LOOKALIKE: Final = re.compile(
    r"(hf_[a-z]{1,16}_)[A-Za-z0-9_-]{4,}|(wh(?:sec|sk)_)[A-Za-z0-9_+/-]{4,}={0,2}"
)
"""A token, or the secret of a webhook."""
_VISIBLE: Final = re.compile(r"[!-~]+")


class TokenKind(StrEnum):
    """What a token is for. It stands in the text, so that a leaked token can be recognised."""

    USER = "user"
    NODE = "node"
    AGENT = "agent"
    JOIN = "join"


JOIN_SCOPES: Final = {
    TokenKind.NODE: frozenset({Operation.NODES_REGISTER}),
    TokenKind.AGENT: frozenset({Operation.AGENTS_ENROL}),
}
"""The scopes of a join token, by the kind of credential that it is exchanged for."""
BOOTSTRAP: Final = Principal(
    "user:admin", PrincipalKind.USER, frozenset({Role.ADMIN}), frozenset({ALL_PROJECTS})
)
"""The principal of the bootstrap token."""


def make_token(kind: TokenKind, secret: bytes) -> str:
    """The token with these 32 random bytes."""
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"a token has {SECRET_BYTES} random bytes, not {len(secret)}")
    return f"hf_{kind}_{urlsafe_b64encode(secret).decode().rstrip('=')}"


def token_kind(text: str) -> TokenKind | None:
    """The kind of a token; None for a text that is no token. Each 32 bytes have one text."""
    match = _TOKEN.fullmatch(text)
    if match is None or match[1] not in TokenKind.__members__.values():
        return None
    kind = TokenKind(match[1])
    return kind if make_token(kind, urlsafe_b64decode(f"{match[2]}=")) == text else None


def token_digest(text: str) -> str:
    """What the store keeps and looks up: SHA-256 in hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def redact(text: str, secrets: tuple[str, ...] = ()) -> str:
    """The text without tokens, without what looks like one, and without the given secrets (e.g. the bootstrap
    token, which may be any text)."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return _LOOKALIKE.sub(rf"\1\2{HIDDEN}", text)


def same_secret(one: str, other: str) -> bool:
    """Whether two secrets are equal, in a time that does not depend on where they differ or on their
    lengths."""
    return hmac.compare_digest(token_digest(one), token_digest(other))


def check_bootstrap(text: str) -> str:
    """BadConfig unless the text can be the bootstrap token: long enough, and fit for a header."""
    if not BOOTSTRAP_CHARS_MIN <= len(text) <= BOOTSTRAP_CHARS_MAX:
        raise BadConfig(
            f"HOLDFAST_ADMIN_TOKEN has {len(text)} characters: give {BOOTSTRAP_CHARS_MIN} to "
            f"{BOOTSTRAP_CHARS_MAX}"
        )
    if _VISIBLE.fullmatch(text) is None:
        raise BadConfig(
            "HOLDFAST_ADMIN_TOKEN has a blank or a character that is not ASCII: a header cannot carry it"
        )
    if token_kind(text) is not None:
        raise BadConfig(
            "HOLDFAST_ADMIN_TOKEN looks like a token of the store: choose another text, e.g. hf_admin_…"
        )
    return text


class TokenState(StrEnum):
    """Whether a token counts."""

    VALID = "valid"
    EXPIRED = "expired"
    REVOKED = "revoked"
    USED_UP = "used-up"


class TokenTimes(msgspec.Struct, frozen=True):
    """What decides whether a token counts: columns of its row."""

    expires_at: float | None = None
    revoked_at: float | None = None
    uses_left: int | None = None
    """Of a join token. None: any number."""


def token_state(times: TokenTimes, now: float) -> TokenState:
    """The state of a token. A revocation counts from its commit on, whatever time it carries."""
    if times.revoked_at is not None:
        return TokenState.REVOKED
    if times.expires_at is not None and times.expires_at <= now:
        return TokenState.EXPIRED
    if times.uses_left is not None and times.uses_left < 1:
        return TokenState.USED_UP
    return TokenState.VALID


class NodeCredential(msgspec.Struct, frozen=True):
    """The credential of a node. During a rotation the previous one counts until `old_until`."""

    digest: str | None
    """None: the node has none, e.g. because it was revoked. Then no credential counts."""
    old_digest: str | None = None
    old_until: float | None = None


def accepts(credential: NodeCredential, digest: str, now: float) -> bool:
    """Whether a presented credential, given by its digest, is the node's."""
    if credential.digest is None:
        return False
    if hmac.compare_digest(credential.digest, digest):
        return True
    old, until = credential.old_digest, credential.old_until
    return (
        old is not None and until is not None and now < until and hmac.compare_digest(old, digest)
    )


def rotated(
    credential: NodeCredential, digest: str, now: float, grace_seconds: float
) -> NodeCredential:
    """The node's credential after a rotation. The current one counts for the grace period, so that an answer
    that got lost does not lock the node out."""
    if credential.digest is None:
        return NodeCredential(digest)
    return NodeCredential(digest, credential.digest, now + grace_seconds)


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def check_listen(host: str, *, has_auth: bool, has_tls: bool) -> None:
    """BadConfig for an address that other machines reach, unless requests are authenticated and encrypted."""
    if is_loopback(host) or (has_auth and has_tls):
        return
    missing = " and ".join(
        name for name, given in (("a token", has_auth), ("a TLS certificate", has_tls)) if not given
    )
    raise BadConfig(
        f"the server would listen on {host!r}, which other machines reach, without {missing}: "
        "set HOLDFAST_ADMIN_TOKEN, give --tls-cert and --tls-key, or listen on 127.0.0.1"
    )
