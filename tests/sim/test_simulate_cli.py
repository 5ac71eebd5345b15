"""`holdfast simulate` from a shell: verdict, broken laws, commands that repeat a run, exit codes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.sim.scenarios import SCENARIOS
from proof.ablations import ablated

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


@pytest.fixture
def without_new_fence() -> Iterator[None]:
    """A product with a defect that breaks a law."""
    with ablated("new-fence"):
        yield


def test_a_good_run_reports_that_every_law_held(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, *SMALL)
    assert code == 0
    assert re.search(r"^verdict +every law held$", out, re.MULTILINE)
    assert "again" not in out


@pytest.mark.usefixtures("without_new_fence")
def test_printed_commands_repeat_their_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, report = answer(capsys, *SMALL)
    assert code == 1
    assert report["verdict"] == "broken"
    small = report["smallest"]
    assert small["law"] == "fences rise"
    assert small["runs"] > 1
    assert small["timeline"][0].startswith("time (s)")
    for failure in (report["broken"][0], small):
        program, verb, *options = shlex.split(failure["replay"])
        assert (program, verb) == ("holdfast", "simulate")
        code, again = answer(capsys, *options, "--no-shrink")
        assert code == 1
        assert "smallest" not in again
        assert again["broken"][0]["laws"] == failure["laws"]
        assert again["trace_hash"] == failure.get("trace_hash", report["trace_hash"])
    assert "--faults none" in small["replay"]


@pytest.mark.usefixtures("without_new_fence")
def test_text_output_shows_the_smallest_run_as_columns(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, *SMALL)
    assert code == 1
    assert re.search(r"^seed 3 +fences rise: ", out, re.MULTILINE)
    assert re.search(r"^again +holdfast simulate --seed 3 ", out, re.MULTILINE)
    assert re.search(
        r"^smallest run +holdfast simulate --seed 3 .*--faults none", out, re.MULTILINE
    )
    assert "seed 3, the smallest run, around what was broken:" in out
    assert "queued>running f0" in out


@pytest.mark.parametrize(
    "options",
    [
        ("--set", "colour=red"),
        ("--set", "nodes"),
        ("--faults", "rain"),
        ("--nodes", "0"),
        ("--seeds", "0"),
    ],
)
def test_invalid_options_are_usage_errors(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    assert main(["simulate", *options]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_every_law_holds_in_each_scenario(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = answer(capsys, name, "--seed", "3", "--hours", "0.005", "--no-shrink")
    assert (code, report["verdict"]) == (0, "every law held")


def test_an_unknown_scenario_lists_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["simulate", "nonsense"]) == 2
    assert "any, tasks, locks, orders, hub, fleet, idle" in capsys.readouterr().err


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_time_limit_replaces_the_number_of_seeds(
    processes: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.sim.campaign.BATCH", 2)
    limits = ("--minutes", "0.000001", "--processes", processes)
    code, report = answer(capsys, *SMALL, *limits)
    assert (code, report["seeds"]) == (0, 1 if processes == "1" else 4)
    assert main(["simulate", "--minutes", "0"]) == 2
