"""The lines of events, at terminals of any width."""

from __future__ import annotations

import pytest

from holdfast.cli.commands.events import POSITION_WIDTH, print_event
from holdfast.cli.options import Color, Common
from holdfast.cli.output.printer import Printer
from holdfast.core.event import Event, Position

TASK = "01a1f43c-4dc5-7000-89da-5c400baf2ab1"
STARTED = Event(
    position=Position("f6b86477", 2407),
    kind="task.started",
    at=1_700_000_000.0,
    task_id=TASK,
    type="email.send",
    version=2,
    data={"node": "vm:12289", "attempt": 1, "fence": 1},
)


@pytest.mark.parametrize("width", [80, POSITION_WIDTH - 1, POSITION_WIDTH, 200, None])
def test_the_id_of_a_task_is_whole(
    width: int | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Printer, "width", width)
    print_event(Printer(Common(color=Color.NEVER)), STARTED)
    line = capsys.readouterr().out.rstrip("\n")
    assert f"task.started     {TASK} email.send" in line
    assert ("f6b86477:2407" in line) == (width is None or width >= POSITION_WIDTH)
    assert width is None or len(line) <= width
