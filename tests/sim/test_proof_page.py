"""docs/explanation/proof.md lists every law, every ablation and every chaos case."""

from __future__ import annotations

import pytest

from holdfast.sim.checkers import CHECKERS
from proof.ablations import ABLATIONS
from proof.chaos.cases import CASES
from tests.sim.proof_page import ROOT, table


def test_every_law_has_a_row() -> None:
    assert sorted(row[0] for row in table("The laws")) == sorted(CHECKERS)


def test_every_ablation_has_a_row() -> None:
    rows = table("Is it able to fail?")
    assert {row[0].strip("`"): row[1] for row in rows} == {
        name: ablation.without for name, ablation in ABLATIONS.items()
    }
    assert {row[3] for row in rows} <= set(CHECKERS)


@pytest.mark.parametrize("page", ["docs/explanation/proof.md", "proof/chaos/README.md"])
def test_every_chaos_case_is_listed(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    assert [case.name for case in CASES if f"`{case.name}`" not in text] == []
