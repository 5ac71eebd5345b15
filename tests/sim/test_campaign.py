"""The product under simulated faults: all laws hold, and a missing safeguard breaks one."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from holdfast.sim.campaign import RUN_ENDS
from proof.ablations import ABLATIONS
from proof.ablations.catch import caught
from proof.ablations.kept import kept_runs

CHUNK = 10
SEEDS = int(os.environ.get("HOLDFAST_SIM_SEEDS", "200"))
"""For the test suite; `make sim` runs more."""


def begin(first_seed: int, *, seeds: int = CHUNK, hash_seed: str = "1") -> subprocess.Popen[str]:
    """Starts a campaign in another process."""
    options = ["--seed", str(first_seed), "--seeds", str(seeds), "--hours", "0.02", "--no-shrink"]
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast", "simulate", *options, "-o", "json"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("first_seed", range(0, SEEDS, CHUNK))
def test_all_laws_hold_under_faults(first_seed: int) -> None:
    ended = json.loads(begin(first_seed).communicate()[0])
    assert ended["broken"] == []
    assert ended["never_met"] == []
    assert (ended["verdict"], ended["seeds"]) == ("every law held", CHUNK)


@pytest.mark.parametrize("first_seed", range(0, SEEDS, 5 * CHUNK))
def test_runs_are_repeatable(first_seed: int) -> None:
    """Runs seeds twice, in processes with different hash seeds."""
    runs = [begin(first_seed, seeds=CHUNK // 2, hash_seed=each) for each in ("1", "2")]
    first, second = (json.loads(run.communicate()[0]) for run in runs)
    assert first["trace_hash"] == second["trace_hash"]


@pytest.mark.parametrize("name", sorted(ABLATIONS))
def test_a_missing_safeguard_breaks_a_law(name: str) -> None:
    """Begins with runs that noticed it when they were kept, and in which the complete product breaks no
    law. A run that an error ended was not judged by any law."""
    catch = caught(name, seeds_max=20, before=kept_runs()[name])
    assert catch is not None
    assert RUN_ENDS not in catch.verdict.broken, catch.verdict.broken
