"""Signatures of webhooks, against the reference library of Standard Webhooks."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, strategies as st
from msgspec.structs import replace
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from holdfast.core import codec
from holdfast.core.errors import BadSignature
from holdfast.core.fleet.webhooks.signature import (
    ID_CHARS_MAX,
    SIGNATURES_MAX,
    TOLERANCE_SECONDS,
    SignedHeaders,
    key_of,
    make_public_key,
    make_secret,
    public_keys,
    read_headers,
    sign,
    verify,
)
from holdfast.errors import InvalidInput
from holdfast.fleet.webhooks import keys as ed25519

NOW = 1_800_000_000.0
ONE, TWO, OTHER = (make_secret(bytes([n]) * 32) for n in (1, 2, 3))
BODY = b'{"command_type": "noop"}'
bodies = st.text(max_size=200).map(str.encode)
ids = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=ID_CHARS_MAX)
keys = st.binary(min_size=24, max_size=64)


def is_valid(signed: SignedHeaders, body: bytes = BODY, secrets: tuple[str, ...] = (ONE,)) -> bool:
    try:
        return verify(signed, body, secrets=secrets, now=NOW) == signed.id
    except BadSignature:
        return False


@given(keys, ids, bodies.map(lambda text: codec.dumps(text.decode()).encode()))
def test_the_reference_accepts_our_signature(key: bytes, message_id: str, body: bytes) -> None:
    """The reference reads the clock of the machine."""
    secret = make_secret(key)
    signed = sign([secret], message_id, datetime.now(UTC).timestamp(), body)
    Webhook(secret).verify(body, signed.headers())


@given(keys, ids, bodies, st.integers(0, 10**11 - 1))
def test_our_check_accepts_the_signature_of_the_reference(
    key: bytes, message_id: str, body: bytes, seconds: int
) -> None:
    secret = make_secret(key)
    at = datetime.fromtimestamp(seconds, UTC)
    signature = Webhook(secret).sign(message_id, at, body.decode())
    assert sign([secret], message_id, seconds, body).signatures == signature
    headers = {
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": f"v2,x {signature}",
    }
    signed = read_headers(headers)
    assert signed is not None
    assert verify(signed, body, secrets=[OTHER, secret], now=seconds) == message_id


def test_both_refuse_another_secret() -> None:
    signed = sign([ONE], "msg_1", datetime.now(UTC).timestamp(), BODY)
    with pytest.raises(WebhookVerificationError):
        Webhook(TWO).verify(BODY, signed.headers())
    assert not is_valid(sign([ONE], "msg_1", NOW, BODY), secrets=(TWO,))


@given(st.sampled_from(["id", "timestamp", "body", "signature"]), st.data())
def test_any_change_of_a_message_is_found(part: str, data: st.DataObject) -> None:
    signed = sign([ONE], "msg_1", NOW, BODY)
    body = BODY
    match part:
        case "id":
            signed = replace(signed, id=data.draw(ids.filter(lambda text: text != "msg_1")))
        case "timestamp":
            seconds = data.draw(st.integers(-300, 300).filter(bool))
            signed = replace(signed, timestamp=signed.timestamp + seconds)
        case "body":
            body = data.draw(bodies.filter(lambda each: each != BODY))
        case _:
            at = data.draw(st.integers(3, len(signed.signatures) - 3))
            text = signed.signatures
            other = "A" if text[at] != "A" else "B"
            signed = replace(signed, signatures=f"{text[:at]}{other}{text[at + 1 :]}")
    assert not is_valid(signed, body)


def test_two_secrets_count_while_one_replaces_the_other() -> None:
    both = sign([TWO, ONE], "msg_1", NOW, BODY)
    assert len(both.signatures.split()) == 2
    for accepted in ((ONE,), (TWO,), (ONE, OTHER), (OTHER, TWO)):
        assert is_valid(both, secrets=accepted)
    assert not is_valid(both, secrets=(OTHER,))
    assert is_valid(sign([ONE], "msg_1", NOW, BODY), secrets=(TWO, ONE))
    assert not is_valid(both, secrets=())


@pytest.mark.parametrize("off", [-1, 1])
def test_the_time_is_bounded_both_ways(off: int) -> None:
    near, far = off * TOLERANCE_SECONDS, off * (TOLERANCE_SECONDS + 1)
    assert is_valid(sign([ONE], "msg_1", NOW + near, BODY))
    with pytest.raises(BadSignature, match="check the clocks"):
        verify(sign([ONE], "msg_1", NOW + far, BODY), BODY, secrets=[ONE], now=NOW)
    with pytest.raises(BadSignature, match="no signature"):
        verify(sign([TWO], "msg_1", NOW + far, BODY), BODY, secrets=[ONE], now=NOW)


def test_a_verifier_judges_asymmetric_signatures() -> None:
    seen: list[tuple[bytes, bytes]] = []

    def verifier(content: bytes, signature: bytes) -> bool:
        seen.append((content, signature))
        return signature == b"good"

    text = (
        f"v1a,{base64.b64encode(b'bad').decode()} v1a,?? v1a,{base64.b64encode(b'good').decode()}"
    )
    signed = SignedHeaders("msg_1", int(NOW), text)
    assert verify(signed, BODY, secrets=[], now=NOW, verifiers=[verifier]) == "msg_1"
    assert seen == [(b"msg_1.1800000000." + BODY, b"bad"), (b"msg_1.1800000000." + BODY, b"good")]
    assert not is_valid(signed)


GOOD = {"webhook-id": "a", "webhook-timestamp": "1", "webhook-signature": "v1,x"}


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"webhook-id": ""}, "webhook-id"),
        ({"webhook-id": "x" * (ID_CHARS_MAX + 1)}, "webhook-id"),
        ({"webhook-id": "a\n"}, "webhook-id"),
        ({"webhook-timestamp": ""}, "webhook-timestamp"),
        ({"webhook-timestamp": "1.5"}, "webhook-timestamp"),
        ({"webhook-timestamp": "-1"}, "webhook-timestamp"),
        ({"webhook-timestamp": "9" * 13}, "webhook-timestamp"),
        ({"webhook-timestamp": "\u0661"}, "webhook-timestamp"),
        ({"webhook-signature": ""}, "webhook-signature"),
        ({"webhook-signature": " v1,x" * (SIGNATURES_MAX + 1)}, "webhook-signature"),
    ],
)
def test_headers_that_cannot_be_read_are_refused(headers: dict[str, str], named: str) -> None:
    with pytest.raises(BadSignature, match=named) as caught:
        read_headers(GOOD | headers)
    assert caught.value.http_status == 401


def test_a_message_without_any_header_is_not_signed() -> None:
    assert read_headers({"content-type": "x"}) is None
    assert read_headers(GOOD) == SignedHeaders("a", 1, "v1,x")
    assert not is_valid(SignedHeaders("a", int(NOW), "v1,\ud800 v1 ,"))


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_?", "whsec_YWJj", "x" * 200, "whsec_é"])
def test_a_wrong_secret_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(InvalidInput, match="secret") as caught:
        key_of(secret)
    assert not secret or secret not in str(caught.value)
    with pytest.raises(InvalidInput):
        make_secret(b"short")


@given(keys)
def test_a_secret_has_its_key(key: bytes) -> None:
    assert key_of(make_secret(key)) == key


# -- ed25519: the reference library has none; the example of the standard, and `cryptography`

SEED = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
PUBLIC = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
OF_NOTHING = bytes.fromhex(
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
    "d25bf5f0595bbe24655141438e7a100b"
)
"""The first test of RFC 8032: seed, public key, and the signature of an empty text."""


def test_keys_and_signatures_are_those_of_the_standard() -> None:
    private = ed25519.make_private_key(SEED)
    assert public_keys([private]) == [make_public_key(PUBLIC)]
    [signer] = ed25519.signers_of([private])
    assert signer(b"") == OF_NOTHING
    [verifier] = ed25519.verifiers_of([make_public_key(PUBLIC)])
    assert verifier(b"", OF_NOTHING)
    assert not verifier(b"x", OF_NOTHING)
    assert not verifier(b"", b"short")


@given(st.binary(min_size=32, max_size=32), ids, bodies)
def test_another_library_accepts_our_signature(seed: bytes, message_id: str, body: bytes) -> None:
    private = ed25519.make_private_key(seed)
    signed = sign([private], message_id, NOW, body, signers=ed25519.signers_of([private]))
    version, _, text = signed.signatures.partition(",")
    assert version == "v1a"
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key()
    public.verify(base64.b64decode(text), f"{message_id}.{int(NOW)}.".encode() + body)


@given(ids, bodies, st.sampled_from(["", "id", "body", "key"]))
def test_a_signature_of_a_public_key_is_judged(message_id: str, body: bytes, wrong: str) -> None:
    key = Ed25519PrivateKey.from_private_bytes(SEED)
    content = f"{message_id}.{int(NOW)}.".encode() + body
    text = base64.b64encode(key.sign(content)).decode()
    signed = SignedHeaders(message_id + "x" * (wrong == "id"), int(NOW), f"v1,bm8= v1a,{text}")
    given_body = body + b" " * (wrong == "body")
    other = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key()
    public = other if wrong == "key" else key.public_key()
    secrets = [ONE, make_public_key(public.public_bytes_raw())]
    verifiers = ed25519.verifiers_of(secrets)
    try:
        verify(signed, given_body, secrets=secrets, now=NOW, verifiers=verifiers)
    except BadSignature:
        assert wrong
    else:
        assert not wrong


def test_a_public_key_is_no_secret() -> None:
    """Who knows the public key must not be able to sign with it as if it were a secret of HMAC."""
    public = make_public_key(PUBLIC)
    forged = sign([make_secret(PUBLIC)], "msg_1", NOW, BODY)
    verifiers = ed25519.verifiers_of([public])
    with pytest.raises(BadSignature):
        verify(forged, BODY, secrets=[public], now=NOW, verifiers=verifiers)


@pytest.mark.parametrize(
    "text", ["", "whpk_", "whpk_AAAA", "whpk_!!", "whsec_" + "A" * 44, make_public_key(PUBLIC)[5:]]
)
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="ed25519"):
        ed25519.check_public_key(text)
