"""Secrets of jobs: references, versions, and streams without secrets however they are cut."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from holdfast.core.fleet.commands.secrets import (
    SECRET_BYTES_MAX,
    SecretRef,
    check_ref,
    check_value,
    context,
    pinned,
    redacted,
    settled,
    versions,
)
from holdfast.errors import InvalidInput

values = st.lists(st.text(alphabet="abc\n", min_size=4, max_size=9), max_size=4)
unstarred = st.text(st.characters(exclude_characters="*"), min_size=4, max_size=20).filter(
    lambda text: text.isprintable()
)
"""What hides a secret has stars itself."""
chunks = st.lists(st.text(alphabet="abc\n", max_size=12).map(str.encode), max_size=12)


@given(chunks, values, st.integers(0, 3))
def test_a_part_with_the_bytes_around_it_is_redacted_as_in_the_whole(
    parts: list[bytes], secrets: list[str], more: int
) -> None:
    whole, size, at, found = b"".join(parts), context(secrets) + more, 0, []
    for part in parts:
        end = at + len(part)
        around = whole[max(0, at - size) : at], whole[end : end + size]
        found.append(redacted(part, secrets, before=around[0], after=around[1]))
        at = end
    assert b"".join(found) == redacted(whole, secrets)


@given(chunks, values, st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_parts_of_an_output_that_grows_are_those_of_the_whole(
    parts: list[bytes], secrets: list[str], sizes: list[int]
) -> None:
    """What is sent while the output grows, in pieces of any size, is never taken back."""
    around, whole, sent = context(secrets), b"", b""
    for nth, part in enumerate([*parts, b""]):
        whole += part
        is_end = nth == len(parts)
        for size in sizes * 3:
            at, end = len(sent), min(len(whole), len(sent) + size)
            bounds = whole[max(0, at - around) : at], whole[end : end + around]
            hide = redacted if is_end else settled
            sent += hide(whole[at:end], secrets, before=bounds[0], after=bounds[1])
            assert redacted(whole, secrets)[: len(sent)] == sent or not is_end
    rest = whole[len(sent) :]
    sent += redacted(rest, secrets, before=whole[max(0, len(sent) - around) : len(sent)])
    assert sent == redacted(whole, secrets)


def test_only_the_start_of_a_secret_waits() -> None:
    assert settled(b"password: hunt", ["hunter2"]) == b"password: "
    assert settled(b"password: hunt", ["hunter2"], after=b"ing") == b"password: hunt"
    assert settled(b"nt", ["hunter2"], before=b"hu") == b""
    assert settled(b"er2 done", ["hunter2"], before=b"hunt") == b"*** done"


@given(chunks.map(b"".join), values)
def test_every_byte_of_every_occurrence_is_a_star_and_no_other(
    data: bytes, secrets: list[str]
) -> None:
    covered = {
        at + offset
        for secret in map(str.encode, [*secrets, *(secret.strip() for secret in secrets)])
        for at in range(len(data))
        if len(secret) >= 4 and data.startswith(secret, at)
        for offset in range(len(secret))
    }
    lines = [line for secret in secrets for line in secret.split("\n") if len(line) >= 8]
    covered |= {
        at + offset
        for line in map(str.encode, lines)
        for at in range(len(data))
        if data.startswith(line, at)
        for offset in range(len(line))
    }
    assert redacted(data, secrets) == bytes(
        ord("*") if at in covered else byte for at, byte in enumerate(data)
    )


@given(st.binary(max_size=40), st.binary(max_size=40), unstarred)
def test_a_secret_does_not_pass(before: bytes, after: bytes, secret: str) -> None:
    data = before + secret.encode() + after
    assert secret.encode() not in redacted(data, [secret])


@given(chunks)
def test_without_secrets_each_part_passes_at_once(parts: list[bytes]) -> None:
    assert [settled(part, []) for part in parts] == parts


def test_secrets_that_overlap_are_hidden_whole() -> None:
    assert redacted(b"xababay", ["abab", "baba"]) == b"x*****y"


def test_a_repetitive_secret_in_a_flood_is_hidden_in_one_pass() -> None:
    data = b"ab" * 100_000
    assert redacted(data, ["ab" * 4_000]) == b"*" * len(data)
    assert redacted(data + b"a", ["ba" * 4_000]) == b"a" + b"*" * len(data)


def test_lines_of_a_key_are_hidden_by_themselves() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkq\n-----END KEY-----\n"
    assert redacted(b"x MIIEvQIBADANBg y kq", [key]) == b"x ************** y kq"
    assert redacted(f"<{key.strip()}>".encode(), [key]) == b"<%s>" % (b"*" * len(key.strip()))


def test_binary_output_stays_as_it_is() -> None:
    data = bytes(range(256)) * 4
    assert redacted(data, ["password"]) == data


def test_references_are_pinned_to_versions() -> None:
    refs = {"A": SecretRef("key"), "B": SecretRef("key", 2), "C": SecretRef("gone")}
    found, missing = pinned(refs, {"key": 5})
    assert found == {"A": SecretRef("key", 5), "B": SecretRef("key", 2)}
    assert missing == ["gone"]
    assert versions(found) == {"key": [2, 5]}


@pytest.mark.parametrize("name", ["", " ", "-a", "a b", "x" * 201, "a\n"])
def test_a_wrong_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"secrets\.A\.name"):
        check_ref("secrets.A", SecretRef(name))


@pytest.mark.parametrize("value", ["", "abc", "x" * (SECRET_BYTES_MAX + 1), "abc\0def"])
def test_a_value_that_cannot_be_hidden_or_passed_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput, match="the value of a secret must have") as caught:
        check_value(value)
    assert not value or value not in str(caught.value)
    assert check_value("abcd") == "abcd"


@given(st.integers(0, 80), st.integers(0, 80), st.booleans())
def test_a_secret_at_the_edges_of_a_gap_is_hidden(end: int, start: int, has_both: bool) -> None:
    """Whatever part of it the gap has taken. Text beside it stays."""
    secret = "TOPSECRET-0123456789-abcdefghijkl"
    text = b"x" * 20 + secret.encode() + b"y" * 20
    head, tail = text[:end], text[start:]
    shown = redacted(head, [secret], is_cut_after=True) + b"|"
    shown += redacted(tail, [secret], is_cut_before=True) if has_both else b""
    assert not set(secret.encode()) & set(shown.replace(b"x", b"").replace(b"y", b""))
    assert shown.count(b"x") == head.count(b"x") + (tail.count(b"x") if has_both else 0)
