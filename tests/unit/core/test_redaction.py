"""Redaction: no secret passes, the rest stays, twice is once."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from holdfast.core.redaction import DEFAULT, FIELDS, Redaction
from holdfast.core.token import TokenKind, make_token
from holdfast.errors import BadConfig

CANARY = "Zx9canaryZx9"
TOKEN = make_token(TokenKind.USER, bytes(range(32)))


@pytest.mark.parametrize(
    "text",
    [
        f"connect postgresql://ann:{CANARY}@db/x failed",
        f"redis://:{CANARY}@host:6379/0",
        f"postgres://ann:{CANARY}@we@host/x",
        f"Authorization: Bearer {CANARY}",
        f"authorization: basic {CANARY}=",
        f"password={CANARY}",
        f"the secret is whsec_{CANARY}+/{CANARY}==, keep it",
        f"DB_PASSWORD = '{CANARY} with blanks'",
        f'client-secret="{CANARY}',
        f"https://x/y?api_key={CANARY}&n=1",
        f'{{"password": "{CANARY}", "n": 1}}',
        f'{{"dbPassword": "{CANARY}',
        f"{{'token': '{CANARY}'}}",
        f'{{"credentials": {{"a": "{CANARY}"}}, "n": 1}}',
        f'{{"x": {{"secret": ["{CANARY}"',
        f'{{"pwd": "a\\"{CANARY}"}}',
    ],
)
def test_a_text_loses_its_secret(text: str) -> None:
    shown = DEFAULT.text(text)
    assert CANARY not in shown
    assert "***" in shown
    assert DEFAULT.text(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "task t1 is queued: it cannot pause",
        "give the token as header: Authorization: Bearer TOKEN",
        "TaskQueue(url, token=...), --token or HOLDFAST_TOKEN",
        '{"payload": {"n": 1}, "tokens_used": 12, "key": "k"}',
        "https://host:8787/api/v1/tasks?q=status:queued",
        "sqlite:///holdfast.db",
        "the password is wrong",
    ],
)
def test_a_text_without_a_secret_stays(text: str) -> None:
    assert DEFAULT.text(text) == text


@given(st.sampled_from(FIELDS), st.sampled_from(["", "db_", "my.", "X-"]), st.booleans())
def test_a_field_is_hidden_by_its_name(name: str, prefix: str, is_upper: bool) -> None:
    field = prefix + (name.upper() if is_upper else name.replace("_", "-"))
    hidden = DEFAULT.value({field: CANARY, "n": [{field: [CANARY]}], "empty": None})
    assert CANARY not in json.dumps(hidden)
    assert hidden["empty"] is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_any_value_keeps_its_shape_and_twice_is_once(value: object) -> None:
    once = DEFAULT.value({"token": TOKEN, "data": value})
    assert once["token"] == "***"
    assert DEFAULT.value(once) == once


@given(st.text(), st.text())
def test_a_token_is_hidden_in_any_text(before: str, after: str) -> None:
    assert TOKEN not in DEFAULT.text(f"{before}{TOKEN}{after}")


def test_names_patterns_and_texts_of_the_settings() -> None:
    rules = Redaction(fields=["Iban"], patterns=[r"\b\d{4}-\d{4}\b"], secrets=["the admin's text"])
    shown = rules.value({"iban": "DE1", "note": "card 1234-5678, the admin's text", "n": 1})
    assert shown == {"iban": "***", "note": "card ***, ***", "n": 1}
    with pytest.raises(BadConfig):
        Redaction(patterns=["("])
    with pytest.raises(BadConfig):
        Redaction(patterns=["x" * 501])
    with pytest.raises(BadConfig):
        Redaction(fields=["--"])
