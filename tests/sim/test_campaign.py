"""The product under simulated faults: the laws hold, and a missing safeguard is noticed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import msgspec
import pytest

from holdfast.sim.ablations import ABLATIONS
from holdfast.sim.campaign import Options, campaign, seeds_to_catch
from holdfast.sim.swarm import FAULTS

SEEDS = int(os.environ.get("HOLDFAST_SIM_SEEDS", "20"))
"""Few in the common suite; `make sim` runs as many as it is told."""
SHORT = Options(hours=0.03, recover_hours=0.3)
BUSY = Options(hours=0.03, recover_hours=0.3, changes=(("act_seconds", "1.5"), ("clients", "3")))
"""So much work that a missing safeguard cannot hide for long."""


def test_every_law_holds_under_faults() -> None:
    report = campaign(range(SEEDS), SHORT)
    assert [(verdict.seed, verdict.broken) for verdict in report.bad] == []
    assert report.never == []
    assert len(report.met) >= len(FAULTS)


@pytest.mark.parametrize("name", sorted(ABLATIONS))
def test_a_missing_safeguard_is_noticed(name: str) -> None:
    """On seeds on which the whole product holds."""
    focused = msgspec.structs.replace(BUSY, changes=BUSY.changes + ABLATIONS[name].focus)
    assert seeds_to_catch(name, focused, limit=20) is not None


def test_the_same_seed_gives_the_same_trace_in_every_process() -> None:
    def told(hash_seed: str) -> dict[str, object]:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "holdfast",
                "simulate",
                "--seed",
                "7",
                "--hours",
                "0.05",
                "-o",
                "json",
            ],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            text=True,
        )
        found: dict[str, object] = json.loads(done.stdout)
        return found

    first, second = told("1"), told("2")
    assert first["trace_hash"] == second["trace_hash"]
    assert first["verdict"] == "every law held"
