"""Keys of ed25519 for signatures of webhooks (`v1a`).

Promises: a signature that is not valid is refused, never an error. Never: makes random bytes; the caller
gives them. Needs `cryptography`, which is imported at the first use.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from holdfast.core.fleet.webhooks import signature
from holdfast.core.fleet.webhooks.signature import Signer, Verifier
from holdfast.errors import InvalidInput, MissingExtra


def check_library() -> None:
    if importlib.util.find_spec("cryptography") is None:
        raise MissingExtra("ed25519 needs cryptography: pip install 'holdfast[ed25519]'")


def make_private_key(seed: bytes) -> str:
    """The private key of these 32 random bytes."""
    check_library()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    return signature.make_private_key(seed, public)


def check_public_key(text: str) -> str:
    """InvalidInput unless it is a public key."""
    check_library()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    raw = signature.public_bytes(text)
    try:
        Ed25519PublicKey.from_public_bytes(raw)
    except ValueError:
        raise InvalidInput("the public key is none of ed25519") from None
    return text


def signers_of(secrets: Sequence[str]) -> list[Signer]:
    """A signer for each private key."""
    private = [text for text in secrets if text.startswith(signature.PRIVATE_PREFIX)]
    if not private:
        return []
    check_library()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return [Ed25519PrivateKey.from_private_bytes(signature.seed_of(key)).sign for key in private]


def verifiers_of(secrets: Sequence[str]) -> list[Verifier]:
    """A verifier for each public key."""
    public = [text for text in secrets if text.startswith(signature.PUBLIC_PREFIX)]
    if not public:
        return []
    check_library()
    return [_verifier(signature.public_bytes(text)) for text in public]


def _verifier(raw: bytes) -> Verifier:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key = Ed25519PublicKey.from_public_bytes(raw)

    def fits(content: bytes, given: bytes) -> bool:
        try:
            key.verify(given, content)
        except InvalidSignature:
            return False
        return True

    return fits
