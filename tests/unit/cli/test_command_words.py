"""Words of the command line that begin with a dash."""

from __future__ import annotations

import pytest

from holdfast.cli.main import main
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


def test_a_value_that_begins_with_a_dash_is_not_called_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["block", "add", "--hosts", "*", "-m", "swap", "--expires", "-5m"]) == 2
    assert "--expires has no value: write --expires=-5" in capsys.readouterr().err
