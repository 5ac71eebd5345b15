"""The picture of a job that is followed: what it waits for, and the command that ends the wait."""

from __future__ import annotations

import re
from typing import Any

import pytest

from holdfast.cli.commands.fleet.progress import LiveDisplay, Snapshot, figures, picture

JOB = "job_01a1f208622d70008119466c31788836"
STYLE = re.compile(r"\x1b\[[0-9;]*m")
VOTES = {
    "state": "pending",
    "need": {"1: role:approver or role:admin": 2},
    "have": {"1: role:approver or role:admin": 1},
    "excluded": ["user:someone.with.a.long.name"],
    "remaining_seconds": 60.0,
}


def job(status: str = "RUNNING", **fields: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "id": JOB, "status": status, "command_type": "shell", "command": "uptime", "hosts": 20, "ended": {},
        "counts": {"NEW": 20}, "kinds": {}, "waves": [], "wave": 1, "waves_total": 1, "budget": {},
        "halt": None, "eta_seconds": None, "excluded": [], "approval": None, "approval_state": "NOT_REQUIRED",
    }  # fmt: skip
    return {**base, **fields}


@pytest.mark.parametrize(
    ("shown", "command", "width"),
    [
        (job("WAIT_APPROVAL", approval=VOTES), f"holdfast approve {JOB} -m TEXT", 80),
        (job("PAUSED"), f"holdfast job resume {JOB}", 80),
        (
            job(kinds={"held_by_block": 3}),
            f"holdfast job executions {JOB} --kind held_by_block",
            90,
        ),
    ],
)
def test_the_command_that_ends_a_wait_is_whole(
    shown: dict[str, Any], command: str, width: int
) -> None:
    lines = [line[:width] for line, _ in picture(Snapshot(shown))]
    assert f"next    {command}" in lines
    assert command in figures(shown)


def test_a_job_that_waits_for_nothing_says_nothing() -> None:
    lines = [line.split()[0] for line, _ in picture(Snapshot(job()))]
    assert not {"waits", "next"} & set(lines)


@pytest.mark.parametrize(("colour", "styles"), [(True, True), (False, False)])
def test_without_colours_a_picture_has_no_styles(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    colour: bool,
    styles: bool,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with LiveDisplay(colour=colour) as display:
        display.show(Snapshot(job()))
    assert bool(STYLE.search(capsys.readouterr().out)) == styles
