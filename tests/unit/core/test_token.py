"""Tokens: their text, their masks, when they count, and where a server may listen."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given, strategies as st

from holdfast.core.access import Allowed, judge
from holdfast.core.rights import Operation
from holdfast.core.token import (
    BOOTSTRAP,
    BOOTSTRAP_CHARS_MIN,
    HIDDEN,
    JOIN_SCOPES,
    NodeCredential,
    TokenKind,
    TokenState,
    TokenTimes,
    accepts,
    check_bootstrap,
    check_listen,
    is_loopback,
    make_token,
    redact,
    rotated,
    same_secret,
    token_digest,
    token_kind,
    token_state,
)
from holdfast.errors import BadConfig

secrets = st.binary(min_size=32, max_size=32)
kinds = st.sampled_from(TokenKind)
tokens = st.builds(make_token, kinds, secrets)


@given(kinds, secrets)
def test_a_token_has_its_kind_and_256_bits(kind: TokenKind, secret: bytes) -> None:
    token = make_token(kind, secret)
    assert re.fullmatch(rf"hf_{kind.value}_[A-Za-z0-9_-]{{43}}", token)
    assert token_kind(token) is kind
    assert token_digest(token) == hashlib.sha256(token.encode()).hexdigest()


@given(kinds, secrets, secrets)
def test_other_bytes_are_another_token(kind: TokenKind, one: bytes, other: bytes) -> None:
    assert (make_token(kind, one) == make_token(kind, other)) is (one == other)


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_a_token_needs_32_bytes(size: int) -> None:
    with pytest.raises(ValueError, match="32 random bytes"):
        make_token(TokenKind.USER, b"x" * size)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hf_user_",
        "hf_user_" + "A" * 42,
        "hf_user_" + "A" * 44,
        "hf_admin_" + "A" * 43,
        "hf_user_" + "A" * 42 + "B",  # spare bits are set: 32 bytes have one text
        "hf_user_" + "A" * 42 + "=",
        "hf_user_" + "A" * 43 + "\n",
        "HF_user_" + "A" * 43,
        "hf_user_" + "é" * 43,
    ],
)
def test_a_text_that_is_no_token(text: str) -> None:
    assert token_kind(text) is None


@given(st.text())
def test_every_text_is_judged(text: str) -> None:
    assert token_kind(text) is None or text.startswith("hf_")
    assert len(token_digest(text)) == 64


@given(tokens, st.text(max_size=20), st.text(max_size=20))
def test_no_part_of_a_token_is_shown(token: str, before: str, after: str) -> None:
    secret = token.split("_", 2)[2]
    text = redact(f"{before} {token} {after}")
    assert token not in text
    assert all(secret[at : at + 12] not in text for at in range(31))


def test_redact_hides_what_looks_like_a_token_and_what_is_given() -> None:
    assert redact("Bearer hf_admin_abcd1234, ok") == f"Bearer hf_admin_{HIDDEN}, ok"
    assert redact("key=open sesame!", ("open sesame!", "")) == f"key={HIDDEN}"
    assert redact("a abc", ("a", "abc")) == f"{HIDDEN} {HIDDEN}"
    assert redact("nothing here") == "nothing here"


@given(st.text(), st.text())
def test_secrets_are_compared_by_value(one: str, other: str) -> None:
    assert same_secret(one, one)
    assert same_secret(one, other) is (one == other)


def test_the_bootstrap_token() -> None:
    good = "hf_admin_" + "x" * 30
    assert check_bootstrap(good) == good
    assert check_bootstrap("y" * BOOTSTRAP_CHARS_MIN)
    short, blank, foreign = "s3cret" * 5, "s3cret word " * 4, "s3crét" * 8
    for bad in (short, blank, foreign, make_token(TokenKind.USER, b"s" * 32), "s" * 501):
        with pytest.raises(BadConfig) as error:
            check_bootstrap(bad)
        assert "s3c" not in str(error.value)
    assert all(
        isinstance(judge(BOOTSTRAP, operation, project="any"), Allowed)
        for operation in (Operation.TOKENS_MANAGE, Operation.TASKS_FORCE, Operation.NODES_ACT_AS)
    )


def test_a_join_token_is_good_for_one_kind_of_node() -> None:
    assert JOIN_SCOPES[TokenKind.NODE] == {Operation.NODES_REGISTER}
    assert JOIN_SCOPES[TokenKind.AGENT] == {Operation.AGENTS_ENROL}


@pytest.mark.parametrize(
    ("times", "state"),
    [
        (TokenTimes(), TokenState.VALID),
        (TokenTimes(expires_at=100.1), TokenState.VALID),
        (TokenTimes(expires_at=100.0), TokenState.EXPIRED),
        (TokenTimes(revoked_at=200.0), TokenState.REVOKED),
        (TokenTimes(expires_at=1.0, revoked_at=1.0), TokenState.REVOKED),
        (TokenTimes(uses_left=1), TokenState.VALID),
        (TokenTimes(uses_left=0), TokenState.USED_UP),
    ],
)
def test_when_a_token_counts(times: TokenTimes, state: TokenState) -> None:
    assert token_state(times, now=100.0) is state


def test_a_rotated_credential_overlaps_with_the_old_one() -> None:
    first = NodeCredential("aa")
    assert accepts(first, "aa", now=0)
    assert not accepts(first, "bb", now=0)
    second = rotated(first, "bb", now=10, grace_seconds=5)
    assert [accepts(second, "aa", now=at) for at in (10, 14.9, 15)] == [True, True, False]
    assert accepts(second, "bb", now=99)
    third = rotated(second, "cc", now=11, grace_seconds=5)
    assert not accepts(third, "aa", now=11)
    assert accepts(third, "bb", now=11)


def test_a_revoked_node_has_no_credential() -> None:
    revoked = NodeCredential(None, old_digest="aa", old_until=100.0)
    assert not accepts(revoked, "aa", now=0)
    assert rotated(revoked, "bb", now=0, grace_seconds=5) == NodeCredential("bb")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]", "::ffff:127.0.0.1"]
)
def test_loopback_needs_no_token(host: str) -> None:
    assert is_loopback(host)
    check_listen(host, has_auth=False, has_tls=False)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "", "example.org", "localhost.example.org"]
)
def test_another_address_needs_a_token_and_tls(host: str) -> None:
    check_listen(host, has_auth=True, has_tls=True)
    for has_auth, has_tls in ((False, False), (True, False), (False, True)):
        with pytest.raises(BadConfig, match="which other machines reach"):
            check_listen(host, has_auth=has_auth, has_tls=has_tls)
