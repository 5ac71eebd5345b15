"""`holdfast simulate` from a shell: verdict, what is broken, commands that show it again, exit codes."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.sim.scenarios import SCENARIOS

SMALL = (
    *("--seed", "3", "--hours", "0.03", "--nodes", "2", "--faults", "crash,loss"),
    *("--set", "traders=", "--set", "lock_servers=0", "--set", "recover_hours=0.3"),
)


def run(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["simulate", *options])
    return code, capsys.readouterr().out


def answer(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, Any]:
    code, out = run(capsys, *options, "-o", "json")
    return code, json.loads(out)


def test_a_good_run_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, *SMALL)
    assert code == 0
    assert re.search(r"^verdict +every law held$", out, re.MULTILINE)
    assert "again" not in out


def test_every_command_that_is_printed_gives_the_run_it_stands_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, told = answer(capsys, *SMALL, "--without", "new-fence")
    assert code == 1
    assert told["verdict"] == "broken"
    small = told["smallest"]
    assert small["law"] == "fences rise"
    assert small["runs"] > 1
    assert small["timeline"][0].startswith("time (s)")
    for found in (told["broken"][0], small):
        program, verb, *options = shlex.split(found["replay"])
        assert (program, verb) == ("holdfast", "simulate")
        code, again = answer(capsys, *options, "--no-shrink")
        assert code == 1
        assert "smallest" not in again
        assert again["broken"][0]["laws"] == found["laws"]
        assert again["trace_hash"] == found.get("trace_hash", told["trace_hash"])
    assert "--faults none" in small["replay"]


def test_a_person_gets_the_smallest_run_as_lanes(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, *SMALL, "--without", "new-fence")
    assert code == 1
    assert re.search(r"^seed 3 +fences rise: ", out, re.MULTILINE)
    assert re.search(r"^again +holdfast simulate --seed 3 ", out, re.MULTILINE)
    assert re.search(
        r"^smallest run +holdfast simulate --seed 3 .*--without new-fence$", out, re.MULTILINE
    )
    assert "seed 3, the smallest run, around what was broken:" in out
    assert "queued>running f0" in out


@pytest.mark.parametrize(
    "options",
    [
        ("--set", "colour=red"),
        ("--set", "nodes"),
        ("--faults", "rain"),
        ("--without", "sense"),
        ("--nodes", "0"),
        ("--seeds", "0"),
    ],
)
def test_what_cannot_be_is_a_wrong_use(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    assert main(["simulate", *options]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_a_scenario_says_what_there_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = answer(capsys, name, "--seed", "3", "--hours", "0.005", "--no-shrink")
    assert (code, told["verdict"]) == (0, "every law held")


def test_an_unknown_scenario_is_told_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["simulate", "nonsense"]) == 2
    assert "any, tasks, locks, orders, idle" in capsys.readouterr().err


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_time_can_be_given_instead_of_a_number(
    processes: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.sim.campaign.BATCH", 2)
    limits = ("--minutes", "0.000001", "--processes", processes)
    code, told = answer(capsys, *SMALL, *limits)
    assert (code, told["seeds"]) == (0, 1 if processes == "1" else 4)
    assert main(["simulate", "--minutes", "0"]) == 2
