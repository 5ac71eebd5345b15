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


def test_an_option_that_is_given_twice_says_how_several_values_are_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["token", "create", "ann", "--role", "operator", "--role", "approver"]) == 2
    assert "commas between them, e.g. --role a,b" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["why", "@last"], "did you mean 'holdfast task why' or 'holdfast job why'?"),
        (["cancel"], "did you mean 'holdfast task cancel' or 'holdfast task-group cancel' or"),
        (["purge"], "use 'holdfast op run abort -q status:queued'"),
        (["migrate"], "did you mean 'holdfast db migrate'?"),
        (["stat"], "did you mean 'holdfast stats'?"),
        (["frobnicate"], "see holdfast --help"),
    ],
)
def test_a_verb_without_its_noun_names_its_commands(
    given: list[str], wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(given) == 2
    assert wanted in capsys.readouterr().err
