"""Command types: definitions of the settings, and the words that they make of a job."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given, strategies as st

from holdfast.core.fleet.commands.command_type import (
    SHIPPED,
    TYPES_MAX,
    CommandKind,
    CommandType,
    OnRestart,
    check_type,
    command_types,
    filled,
)
from holdfast.core.fleet.words import split_words
from holdfast.errors import BadConfig, InvalidInput


def defined(**keys: Any) -> CommandType:
    return command_types({"x": keys})["x"]


def test_the_shipped_types_are_those_of_the_contract() -> None:
    assert list(SHIPPED) == ["noop", "ping", "facts", "exec", "restart", "shell"]
    for type in SHIPPED.values():
        check_type(type)
    assert {name for name, type in SHIPPED.items() if type.approval == "none"} == {
        *("noop", "ping", "facts"),
    }
    assert {name for name, type in SHIPPED.items() if type.idempotent} == {
        *("noop", "ping", "facts", "restart"),
    }
    assert {name: type.approval_above for name, type in SHIPPED.items() if not type.approval} == {
        "exec": 50,
        "restart": 50,
        "shell": 0,
    }
    assert [name for name, type in SHIPPED.items() if type.kind is CommandKind.SHELL] == ["shell"]


def test_a_definition_takes_the_place_of_a_shipped_type() -> None:
    types = command_types({"restart": {"argv": ["service", "{command}", "restart"]}})
    assert types["restart"].argv == ("service", "{command}", "restart")
    assert types["restart"].name == "restart"
    assert not types["restart"].idempotent
    assert set(types) == set(SHIPPED)
    assert command_types() == SHIPPED


def test_a_definition_has_all_keys() -> None:
    type = defined(
        kind="argv",
        argv=["deploy", "{args.version}", "--", "{command}"],
        options=True,
        timeout_seconds=5,
        grace_seconds=0,
        output_bytes=10,
        idempotent=True,
        on_restart="probe",
        probe=["deployed", "{args.version}"],
        run_as="deploy",
        env=["LANG", "APP_*"],
        approval="two-eyes",
        approval_above=3,
        max_hosts=100,
        ok_codes=[0, 3],
    )
    assert type.on_restart is OnRestart.PROBE
    assert type.args == {"version"}
    assert type.takes_command
    assert [
        name for name in ("LANG", "LANGUAGE", "APP_X", "APP", "PATH") if type.allows_env(name)
    ] == [
        "LANG",
        "APP_X",
    ]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, r"x\.argv belongs to the kind 'argv', which needs it"),
        ({"kind": "shell", "argv": ["a"]}, r"x\.argv belongs"),
        ({"kind": "sql"}, "'sql'"),
        ({"kind": "builtin"}, r"x\.builtin belongs"),
        ({"kind": "builtin", "builtin": "reboot"}, "ping, facts, drain, update"),
        ({"kind": "noop", "probe": ["a"]}, r"x\.probe belongs"),
        ({"kind": "shell", "probe": ["{command}"]}, r"x\.probe has \{command\}"),
        ({"argv": ["a"], "name": "y"}, r"x\.name is not a key"),
        ({"argv": ["a"], "timeout": 5}, r"x\.timeout is not known: use kind, argv"),
        ({"argv": "a b"}, "`array`"),
        ({"argv": ["a", "--x={args.y}"]}, "are whole words"),
        ({"argv": ["a", "{command}s"]}, "are whole words"),
        ({"argv": ["a", "b\0"]}, "NUL"),
        ({"argv": ["", "b"]}, "an empty first word"),
        ({"argv": ["a"] * 65}, "at most 64"),
        ({"argv": ["a"], "timeout_seconds": 0}, r"x\.timeout_seconds"),
        ({"argv": ["a"], "timeout_seconds": 1e9}, r"x\.timeout_seconds"),
        ({"argv": ["a"], "grace_seconds": -1}, r"x\.grace_seconds"),
        ({"argv": ["a"], "output_bytes": 2**40}, r"x\.output_bytes"),
        ({"argv": ["a"], "approval_above": -1}, r"x\.approval_above"),
        ({"argv": ["a"], "max_hosts": 0}, r"x\.max_hosts"),
        ({"argv": ["a"], "on_restart": "rerun"}, "needs idempotent = true"),
        ({"argv": ["a"], "on_restart": "probe"}, "needs a probe"),
        ({"argv": ["a"], "run_as": "a b"}, "the name of a user"),
        ({"argv": ["a"], "ok_codes": []}, "exit codes"),
        ({"argv": ["a"], "ok_codes": [256]}, "exit codes"),
        ({"argv": ["a"], "env": ["*"]}, "names of variables"),
        ({"argv": ["a"], "env": ["A*B"]}, "names of variables"),
        ({"argv": ["a"], "env": ["A"] * 101}, "at most 100"),
    ],
)
def test_a_wrong_definition_names_its_key(keys: dict[str, object], message: str) -> None:
    with pytest.raises(BadConfig, match=message) as caught:
        defined(**keys)
    assert "fleet.command_types.x" in str(caught.value)


@pytest.mark.parametrize("name", ["", "X", "1a", "a b", "a" * 65, "é"])
def test_a_name_of_a_type_is_plain(name: str) -> None:
    with pytest.raises(BadConfig, match=r"fleet\.command_types has the name"):
        command_types({name: {"argv": ["a"]}})


def test_settings_of_types_are_tables_and_bounded() -> None:
    with pytest.raises(BadConfig, match="must be a table"):
        command_types({"x": 5})
    with pytest.raises(BadConfig, match="at most"):
        command_types({f"x{n}": {"argv": ["a"]} for n in range(TYPES_MAX + 1)})


words = st.lists(st.text(max_size=6), max_size=4)


@given(words, words, words)
def test_no_value_changes_the_words_of_the_template(
    command: list[str], one: list[str], two: list[str]
) -> None:
    template = ("run", "{args.one}", "--", "{command}", "{args.two}", "{x}")
    argv = filled(template, command, {"one": one, "two": two})
    assert argv == ("run", *one, "--", *command, *two, "{x}")


# -- splitting -----------------------------------------------------------------------------------------


@given(st.text(alphabet="ab \t\"'\\*~#{}é", max_size=12))
def test_words_are_split_as_by_shlex(text: str) -> None:
    try:
        reference = tuple(shlex.split(text))
    except ValueError:
        with pytest.raises(InvalidInput, match="cannot be split at column"):
            split_words("command", text)
    else:
        assert split_words("command", text) == reference


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_quoted_words_come_back(given_words: list[str]) -> None:
    assert split_words("command", shlex.join(given_words)) == tuple(given_words)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("echo $HOME ${X} * ~", ("echo", "$HOME", "${X}", "*", "~")),
        ('"\\$x" "\\`" "\\"" "\\a"', ("$x", "`", '"', "\\a")),
        ("a \\\n b", ("a", "b")),
        ("a\\\nb", ("ab",)),
        ('"a\\\nb"', ("ab",)),
        ("a\nb\r\nc", ("a", "b", "c")),
        ("'a|b' \"c;d\" e\\&f", ("a|b", "c;d", "e&f")),
        ("a '' b", ("a", "", "b")),
    ],
)
def test_words_are_split_as_by_a_shell_without_expansion(text: str, found: tuple[str, ...]) -> None:
    assert split_words("command", text) == found


@pytest.mark.parametrize(
    "text", ["a | b", "a && b", "a; b", "a > b", "a < b", "(a)", "`a`", "a $(b)", "a &"]
)
def test_what_needs_a_shell_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="needs a shell: quote it, or use a command type"):
        split_words("command", text)
