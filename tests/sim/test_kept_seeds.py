"""Seeds that found a fault, and the tests that cover it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from holdfast.sim.campaign import Options, run_seed
from holdfast.sim.checkers import CHECKERS

ROOT = Path(__file__).parents[2]


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fault that a seed found."""

    seed: int
    hours: float
    law: str
    found: str
    where: str
    commit: str
    test: str
    changes: dict[str, str] = {}
    """Figures of the plan that were given and not drawn."""


TABLE = tomllib.loads((ROOT / "tests/sim/kept_seeds.toml").read_text("utf-8"))
AS_DRAWN_THEN = {"cascade_batch": "1000", "children": "1", "gateways": "0"}
"""Figures that plans did not draw when most of these faults were found."""
KEPT = msgspec.convert(TABLE["seed"], list[Kept])


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: str(kept.seed))
def test_seeds_that_found_a_fault_now_pass(kept: Kept) -> None:
    changes = tuple((AS_DRAWN_THEN | kept.changes).items())
    options = Options(hours=kept.hours, recover_hours=0.5, changes=changes)
    verdict = run_seed(kept.seed, options)
    assert verdict.broken == {}, verdict.timeline


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: str(kept.seed))
def test_each_fault_found_has_its_own_test(kept: Kept) -> None:
    assert kept.law in CHECKERS
    assert kept.where in ("product", "simulator")
    path, name = kept.test.split("::")
    assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE)
