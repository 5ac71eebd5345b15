"""The command of `holdfast run` behind `--`."""

from __future__ import annotations

import pytest

from holdfast.cli.run import joined_command


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["--hosts", "*", "--", "ls", "-la", "/a b"], ["--hosts", "*", "--", "ls -la '/a b'"]),
        (["--hosts", "*", "--", "ls -la | wc"], ["--hosts", "*", "--", "ls -la | wc"]),
        (["uptime", "--hosts", "*"], ["uptime", "--hosts", "*"]),
        (["--hosts", "*", "--", "a", "--", "b"], ["--hosts", "*", "--", "a -- b"]),
    ],
)
def test_words_behind_the_dashes_are_one_command(given: list[str], wanted: list[str]) -> None:
    assert joined_command(given) == wanted
