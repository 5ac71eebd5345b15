"""Signatures of webhooks, as in Standard Webhooks 1.0.

A message has the headers `webhook-id`, `webhook-timestamp` (epoch seconds) and `webhook-signature`: one or
more signatures `v1,BASE64` with blanks between them. `v1` is HMAC-SHA256 of `id.timestamp.body` under a
secret `whsec_BASE64`; `v1a` is ed25519 of the same, under a private key `whsk_BASE64` whose public key
`whpk_BASE64` the receiver has. While a secret or key is replaced two of them count: a sender signs with both,
a receiver accepts either.
Promises: the body is signed as it came, byte by byte. A message is valid for `tolerance_seconds` before and
after its time. Every signature is compared with every secret in constant time, whether or not one has fit.
Never: clocks, randomness; the caller gives the time and the bytes of a new secret. Replays within the
tolerance are the caller's: it keeps the ids. ed25519 needs a library: the caller gives `signers` and
`verifiers`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from holdfast.core.errors import BadSignature
from holdfast.errors import InvalidInput

ID_HEADER: Final = "webhook-id"
TIMESTAMP_HEADER: Final = "webhook-timestamp"
SIGNATURE_HEADER: Final = "webhook-signature"
SECRET_PREFIX: Final = "whsec_"
PRIVATE_PREFIX: Final = "whsk_"
"""Of a private key of ed25519: 32 bytes of the seed and 32 of the public key."""
PUBLIC_PREFIX: Final = "whpk_"
PUBLIC_KEY_BYTES: Final = 32
SECRET_BYTES: Final = 32
"""Bytes of a new secret."""
KEY_BYTES_MIN: Final = 24
KEY_BYTES_MAX: Final = 64
TOLERANCE_SECONDS: Final = 300.0
SIGNATURES_MAX: Final = 10
ID_CHARS_MAX: Final = 200
UNSIGNED: Final = (
    "no signature of the webhook fits a secret of its source: check the name of the source in the path and "
    "its secret, and sign id.timestamp.body with the body as it is sent, byte for byte"
)
SYMMETRIC: Final = "v1"
ASYMMETRIC: Final = "v1a"
_TIMESTAMP: Final = re.compile(r"[0-9]{1,12}")
Verifier: TypeAlias = Callable[[bytes, bytes], bool]
"""Whether the second argument is a signature of the first one, under a public key."""


Signer: TypeAlias = Callable[[bytes], bytes]
"""The signature of a text, under a private key."""


class SignatureMethod(StrEnum):
    """How messages are signed."""

    HMAC = "hmac"
    ED25519 = "ed25519"


class SignedHeaders(msgspec.Struct, frozen=True):
    """What a message says about itself."""

    id: str
    timestamp: int
    signatures: str

    def headers(self) -> dict[str, str]:
        """As a request has them."""
        return {
            ID_HEADER: self.id,
            TIMESTAMP_HEADER: str(self.timestamp),
            SIGNATURE_HEADER: self.signatures,
        }


def make_secret(key: bytes) -> str:
    """A secret of these random bytes."""
    return SECRET_PREFIX + base64.b64encode(_checked(key)).decode()


def key_of(secret: str) -> bytes:
    """The bytes of a secret. InvalidInput if it is none; the message does not show it."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (ValueError, binascii.Error):
        raise InvalidInput(
            f"the secret is not {SECRET_PREFIX} and base64: make a new one"
        ) from None
    return _checked(key)


def method_of(secret: str) -> SignatureMethod:
    """The method of a secret or key."""
    is_key = secret.startswith((PRIVATE_PREFIX, PUBLIC_PREFIX))
    return SignatureMethod.ED25519 if is_key else SignatureMethod.HMAC


def make_private_key(seed: bytes, public: bytes) -> str:
    """A private key that names its public key."""
    return PRIVATE_PREFIX + base64.b64encode(seed + public).decode()


def make_public_key(public: bytes) -> str:
    return PUBLIC_PREFIX + base64.b64encode(public).decode()


def seed_of(private: str) -> bytes:
    return _key_bytes(private, PRIVATE_PREFIX, 2 * PUBLIC_KEY_BYTES)[:PUBLIC_KEY_BYTES]


def public_bytes(public: str) -> bytes:
    """The bytes of a public key. InvalidInput if it is none."""
    return _key_bytes(public, PUBLIC_PREFIX, PUBLIC_KEY_BYTES)


def public_keys(secrets: Sequence[str]) -> list[str]:
    """The public keys of private and public keys; secrets of HMAC have none."""
    found = []
    for secret in secrets:
        if secret.startswith(PRIVATE_PREFIX):
            raw = _key_bytes(secret, PRIVATE_PREFIX, 2 * PUBLIC_KEY_BYTES)
            found.append(make_public_key(raw[PUBLIC_KEY_BYTES:]))
        elif secret.startswith(PUBLIC_PREFIX):
            found.append(secret)
    return found


def _key_bytes(text: str, prefix: str, size: int) -> bytes:
    try:
        key = base64.b64decode(text.removeprefix(prefix), validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if not text.startswith(prefix) or len(key) != size:
        raise InvalidInput(f"a key of ed25519 is {prefix} and base64 of {size} bytes")
    return key


def _checked(key: bytes) -> bytes:
    if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        raise InvalidInput(
            f"the secret of a webhook must have {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes, not {len(key)}"
        )
    return key


def sign(
    secrets: Sequence[str],
    message_id: str,
    now: float,
    body: bytes,
    *,
    signers: Sequence[Signer] = (),
) -> SignedHeaders:
    """The headers of a message, signed with each of the secrets of HMAC and each of the signers."""
    timestamp = int(now)
    content = _content(message_id, timestamp, body)
    signatures = [f"{SYMMETRIC},{_mac(key_of(secret), content)}" for secret in _of_hmac(secrets)]
    made = (base64.b64encode(signer(content)).decode() for signer in signers)
    signatures.extend(f"{ASYMMETRIC},{text}" for text in made)
    return SignedHeaders(message_id, timestamp, " ".join(signatures))


def read_headers(headers: Mapping[str, str]) -> SignedHeaders | None:
    """The headers of a message, by their names in lower case. None: it has no signature. BadSignature if one
    of them is missing or cannot be read."""
    given = [headers.get(name) for name in (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER)]
    if not any(given):
        return None
    message_id, timestamp, signatures = (text or "" for text in given)
    if not 1 <= len(message_id) <= ID_CHARS_MAX or not message_id.isprintable():
        raise BadSignature(f"{ID_HEADER} is missing or has more than {ID_CHARS_MAX} characters")
    if _TIMESTAMP.fullmatch(timestamp) is None:
        raise BadSignature(f"{TIMESTAMP_HEADER} is missing or no whole number of seconds")
    if not 1 <= len(signatures.split()) <= SIGNATURES_MAX:
        raise BadSignature(f"{SIGNATURE_HEADER} must have 1 to {SIGNATURES_MAX} signatures")
    return SignedHeaders(message_id, int(timestamp), signatures)


def verify(
    signed: SignedHeaders,
    body: bytes,
    *,
    secrets: Sequence[str],
    now: float,
    tolerance_seconds: float = TOLERANCE_SECONDS,
    verifiers: Sequence[Verifier] = (),
) -> str:
    """The id of the message. BadSignature unless one of its signatures fits one of the secrets of HMAC or of
    the verifiers, and its time is near. The signature is judged first: a stranger learns nothing about the
    clock."""
    content = _content(signed.id, signed.timestamp, body)
    expected = [_mac(key_of(secret), content).encode() for secret in _of_hmac(secrets)]
    is_valid = False
    for signature in signed.signatures.split():
        version, _, text = signature.partition(",")
        if version == SYMMETRIC:
            given = text.encode("utf-8", "surrogatepass")
            for each in expected:
                is_valid |= hmac.compare_digest(each, given)
        elif version == ASYMMETRIC:
            is_valid |= _fits(text, content, verifiers)
    if not is_valid:
        raise BadSignature(UNSIGNED)
    late = now - signed.timestamp
    if abs(late) > tolerance_seconds:
        what = "old" if late > 0 else "in the future"
        raise BadSignature(
            f"the time of the webhook is {abs(late):.0f} s {what}: at most {tolerance_seconds:g} s are "
            "accepted; check the clocks"
        )
    return signed.id


def _fits(text: str, content: bytes, verifiers: Sequence[Verifier]) -> bool:
    try:
        signature = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return False
    return any(verifier(content, signature) for verifier in verifiers)


def _of_hmac(secrets: Sequence[str]) -> list[str]:
    return [secret for secret in secrets if method_of(secret) is SignatureMethod.HMAC]


def _content(message_id: str, timestamp: int, body: bytes) -> bytes:
    return f"{message_id}.{timestamp}.".encode("utf-8", "surrogatepass") + body


def _mac(key: bytes, content: bytes) -> str:
    return base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
