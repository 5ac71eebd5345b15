"""The product under simulated faults: all laws hold, and a missing safeguard breaks one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.sim.campaign import RUN_ENDS
from proof.ablations import ABLATIONS
from proof.ablations.catch import caught
from proof.ablations.kept import kept_runs
from tests import launcher

CHUNK = 10
TWICE = 5
"""Seeds at the start of every fifth chunk that `test_runs_are_repeatable` runs and judges."""
REPEATED = 5 * CHUNK
SEEDS = int(os.environ.get("HOLDFAST_SIM_SEEDS", "200"))
"""For the test suite; `make sim` runs more."""


def options(first_seed: int, seeds: int) -> list[str]:
    return [
        *("simulate", "--seed", str(first_seed), "--seeds", str(seeds)),
        *("--hours", "0.02", "--no-shrink", "-o", "json"),
    ]


def judge(answer: str, seeds: int) -> str:
    """Expects that every law held. Returns the hash of the traces."""
    ended = json.loads(answer)
    assert ended["broken"] == []
    assert ended["never_met"] == []
    assert (ended["verdict"], ended["seeds"]) == ("every law held", seeds)
    trace_hash: str = ended["trace_hash"]
    return trace_hash


@pytest.mark.parametrize("first_seed", range(0, SEEDS, CHUNK))
def test_all_laws_hold_under_faults(first_seed: int, tmp_path: Path) -> None:
    repeated = 0 if first_seed % REPEATED else TWICE
    seeds = CHUNK - repeated
    args = options(first_seed + repeated, seeds)
    judge(launcher.run(args, tmp_path, os.environ, "", timeout=100).stdout, seeds)


@pytest.mark.parametrize("first_seed", range(0, SEEDS, REPEATED))
def test_runs_are_repeatable(first_seed: int) -> None:
    """Runs seeds twice, in processes with different hash seeds. They are left out above."""
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "holdfast", *options(first_seed, TWICE)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "2")
    ]
    first, second = (judge(run.communicate()[0], TWICE) for run in runs)
    assert first == second


@pytest.mark.parametrize("name", sorted(ABLATIONS))
def test_a_missing_safeguard_breaks_a_law(name: str) -> None:
    """Begins with runs that noticed it when they were kept, and in which the complete product breaks no
    law. A run that an error ended was not judged by any law."""
    catch = caught(name, seeds_max=20, before=kept_runs()[name])
    assert catch is not None
    assert RUN_ENDS not in catch.verdict.broken, catch.verdict.broken
