"""Messages about the request of a job name the options of the command line."""

from __future__ import annotations

from dataclasses import fields

import pytest

from holdfast.cli.commands.fleet.flags import FLAGS, named_by_flags, with_flag
from holdfast.cli.commands.fleet.run_request import Rollout, What
from holdfast.core.fleet.rollout.policy import BudgetName
from holdfast.errors import InvalidInput


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("budget.failed is 'x': give a number", "--max-fail is 'x': give a number"),
        ("waves[1] is 'rest': only the last", "size 2 of --waves is 'rest': only the last"),
        ("waves has 99 sizes", "--waves has 99 sizes"),
        ("args.ref is missing: it needs it", "--arg ref is missing: it needs it"),
        ("secrets.PW.version is 3", "--secret PW.version is 3"),
        ("secrets names 'x', which the server", "--secret names 'x', which the server"),
        ("exec_timeout_seconds is -1", "--timeout is -1"),
        ("waves of the sea", "waves of the sea"),
        ("the order is 'x'", "the order is 'x'"),
        ("environment is 'x'", "environment is 'x'"),
    ],
)
def test_a_message_names_the_option(message: str, shown: str) -> None:
    assert with_flag(message) == shown
    with pytest.raises(InvalidInput) as error, named_by_flags():
        raise InvalidInput(message)
    assert str(error.value) == shown


def test_every_option_of_a_job_is_in_the_table() -> None:
    options = {
        f"--{field.name.replace('_', '-')}" for kind in (Rollout, What) for field in fields(kind)
    }
    assert options <= set(FLAGS.values())
    assert {f"budget.{name}" for name in BudgetName} <= set(FLAGS)
