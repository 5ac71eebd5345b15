"""Untrusted text: a terminal only shows it, whatever it contains."""

from __future__ import annotations

import json

from hypothesis import given, strategies as st

from holdfast.core.text import json_text, lines, one_line

HOSTILE = "a\x1b]0;PWNED\x07\x1b[2J\r\nerror[ok]: all is well \x9b31m \u202eback \x7f \udcff \0"
texts = st.text(alphabet=st.characters(codec=None)) | st.just(HOSTILE)


@given(texts)
def test_a_line_is_one_printable_line(text: str) -> None:
    assert one_line(text).isprintable()


@given(texts)
def test_lines_are_printable(text: str) -> None:
    cleaned = lines(text)
    assert cleaned.replace("\n", "").isprintable()
    assert cleaned.count("\n") == text.count("\n")


@given(
    st.recursive(texts | st.none() | st.integers(), lambda children: st.lists(children, max_size=3))
)
def test_json_stays_the_same_document(value: object) -> None:
    for indent in (None, 2):
        document = json.dumps(value, ensure_ascii=False, indent=indent)
        cleaned = json_text(document)
        assert cleaned.replace("\n", "").isprintable()
        assert json.loads(cleaned) == value


def test_printable_text_is_left_alone() -> None:
    text = "příliš žluťoučký kůň 🐎  two spaces"
    assert (one_line(text), lines(text), json_text(text)) == (text, text, text)
