"""The short form of `python -m proof hub`: two gateways, two workers, eight watchers and two offline nodes as
processes, a few seconds of kills and restarts."""

from __future__ import annotations

from pathlib import Path

from proof.hub.judge import judge
from proof.hub.plan import short
from proof.hub.run import run_plan

SEED = 3


async def test_a_site_under_faults_keeps_its_laws(tmp_path: Path) -> None:
    evidence = await run_plan(short(SEED), tmp_path)
    assert {law: texts for law, texts in judge(evidence).items() if texts} == {}
    assert len(evidence.events) > 100
    assert sum(evidence.faults.values()) > 3
