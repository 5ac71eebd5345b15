"""Standard streams as scripts, cron and full disks leave them: closed, full, and without a reader."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.cli_support import HOLDFAST, Cli, Stock, run_inside, stocked


@pytest.fixture
async def stock(tmp_path: Path) -> Stock:
    return await stocked("sqlite:///" + str(tmp_path / "holdfast.db"))


@pytest.fixture
def cli(tmp_path: Path, stock: Stock) -> Cli:
    return Cli(tmp_path)


def in_shell(cli: Cli, line: str) -> subprocess.CompletedProcess[str]:
    """The command line with the redirections of a shell."""
    text = f"{shlex.join(HOLDFAST)} {line}"
    return subprocess.run(
        ["bash", "-c", text],
        cwd=cli.folder,
        env=cli.env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_notes_of_a_closed_stderr_are_not_mixed_into_the_data(cli: Cli) -> None:
    done = in_shell(cli, "task list --limit 2 2>&-")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 3)
    assert "more:" not in done.stdout


def test_a_change_with_closed_streams_is_made_and_reported_as_made(cli: Cli, stock: Stock) -> None:
    done = in_shell(cli, f"task cancel {stock.later} <&- >&- 2>&-")
    assert done.returncode == 0
    assert cli.see("task", "show", stock.later)["status"] == "aborted"


def test_a_full_disk_is_named(cli: Cli, stock: Stock) -> None:
    done = in_shell(cli, "task list -o json >/dev/full")
    problem = json.loads(done.stderr)
    assert (done.returncode, problem["code"]) == (1, "output")
    assert "No space left on device" in problem["detail"]
    assert "HOLDFAST_DEBUG" not in done.stderr


def test_help_without_a_reader_ends_quietly(cli: Cli) -> None:
    done = in_shell(cli, "task list --help | head -c1; echo ${PIPESTATUS[0]}")
    assert (done.stdout[1:], done.stderr) == ("0\n", "")


def test_an_argument_that_is_no_text_is_named(tmp_path: Path) -> None:
    for line in (["task", "cancel", "\udcff"], ["task", "list", "-q", "type:\udce9t\udce9"]):
        done = run_inside(tmp_path, *line)
        assert done.code == 2
        assert "is not UTF-8" in done.said


def test_the_version_takes_no_arguments(tmp_path: Path) -> None:
    assert run_inside(tmp_path, "version", "--nonsense").code == 2
    assert "Print the version" in run_inside(tmp_path, "version", "--help").out
