"""Seeds that once found something, and the tests that keep what they found."""

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
    """One finding."""

    seed: int
    hours: float
    law: str
    found: str
    where: str
    commit: str
    test: str
    changes: dict[str, str] = {}
    """Figures of the plan that were given, not drawn."""


TABLE = tomllib.loads((ROOT / "tests/sim/kept_seeds.toml").read_text("utf-8"))
AS_DRAWN_THEN = {"cascade_batch": "1000", "children": "1"}
"""Figures that a plan did not draw yet when most of these were found."""
KEPT = msgspec.convert(TABLE["seed"], list[Kept])


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: str(kept.seed))
def test_a_seed_that_found_something_finds_nothing_now(kept: Kept) -> None:
    changes = tuple((AS_DRAWN_THEN | kept.changes).items())
    options = Options(hours=kept.hours, recover_hours=0.5, changes=changes)
    verdict = run_seed(kept.seed, options)
    assert verdict.broken == {}, verdict.timeline


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: str(kept.seed))
def test_what_a_seed_found_is_kept_by_a_test_of_its_own(kept: Kept) -> None:
    assert kept.law in CHECKERS
    assert kept.where in ("product", "simulator")
    path, name = kept.test.split("::")
    assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE)
