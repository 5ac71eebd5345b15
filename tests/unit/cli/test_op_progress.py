"""How an operation is shown while it runs, by what is asked for and where it goes."""

from __future__ import annotations

import io
from typing import Any

import pytest

from holdfast.cli.commands.op_progress import (
    Bar,
    JsonLines,
    OpDisplay,
    PlainLines,
    bar,
    figures,
    op_display,
)
from holdfast.cli.options import Common, Output, Progress
from holdfast.cli.output.printer import Printer


def operation(done: int, failed: int = 0, **fields: Any) -> dict[str, Any]:
    base = {"id": "op_1", "state": "running", "total": 400, "detail": None}
    return {**base, "done": done, "failed": failed, **fields}


class Hands:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_line_has_what_a_person_wants_to_know() -> None:
    assert figures(operation(120)) == "120 of 400"
    assert figures(operation(120, 3)) == "123 of 400, 3 refused"
    assert figures(operation(0, detail="no gateway")) == "0 of 400; waits: no gateway"
    assert bar(operation(177, 3), left=12.0) == (
        "[#############.................]  45 %  180 of 400, 3 refused, about 12s left"
    )
    assert bar(operation(0, total=0), left=None).endswith("  0 %  0 of 0")


def test_a_log_gets_a_line_a_second_and_only_for_changes() -> None:
    stream, clock = io.StringIO(), Hands()
    lines = PlainLines(stream, clock)
    lines.show(operation(1))
    assert stream.getvalue() == "", "an operation that ends at once leaves no line"
    for clock.now, done in ((1.0, 10), (1.5, 20), (2.0, 30), (3.0, 30), (4.0, 40)):
        lines.show(operation(done))
    assert stream.getvalue().splitlines() == [
        "op_1 running: 10 of 400",
        "op_1 running: 30 of 400",
        "op_1 running: 40 of 400",
    ]


def test_a_terminal_gets_one_line_that_goes_away() -> None:
    stream, clock = io.StringIO(), Hands()
    line = Bar(stream, clock)
    line.close()
    assert stream.getvalue() == ""
    line.show(operation(100))
    clock.now = 10.0
    line.show(operation(200))
    line.close()
    text = stream.getvalue()
    assert "\n" not in text
    assert "about 20s left" in text
    assert text.endswith("\r\x1b[K")


@pytest.mark.parametrize(
    ("progress", "output", "kind"),
    [
        (Progress.AUTO, Output.TABLE, PlainLines),
        (Progress.AUTO, Output.JSON, OpDisplay),
        (Progress.TTY, Output.TABLE, Bar),
        (Progress.PLAIN, Output.JSON, PlainLines),
        (Progress.JSON, Output.TABLE, JsonLines),
        (Progress.QUIET, Output.TABLE, OpDisplay),
    ],
)
def test_the_display_follows_the_option(
    progress: Progress, output: Output, kind: type[OpDisplay]
) -> None:
    assert type(op_display(progress, Printer(Common(output=output)), Hands())) is kind


def test_json_is_an_object_for_each_change(capsys: pytest.CaptureFixture[str]) -> None:
    lines = JsonLines(Printer(Common()))
    for done in (1, 1, 2):
        lines.show(operation(done))
    assert capsys.readouterr().out.count("\n") == 2
