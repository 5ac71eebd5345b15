"""The campaign of the fleet in its short form, and that its summary counts what the laws say."""

from __future__ import annotations

import pytest

from holdfast.sim.campaign import Verdict, campaign
from holdfast.sim.checkers import CHECKERS
from proof.fleet.main import QUESTIONS, Tally, main, options
from tests.sim.proof_page import ROOT

AGENTS = 100
SEEDS = 6
"""`make fleet` has 200 seeds of 1,000 agents."""


def test_all_laws_hold_under_the_load_of_the_campaign() -> None:
    report = campaign(range(SEEDS), options(AGENTS), processes=2)
    assert [verdict.timeline for verdict in report.bad] == []
    assert report.met["executions"] >= AGENTS * SEEDS
    assert report.met["agent runs under faults"] > AGENTS
    assert report.met["agent crashes"]


def test_hosts_are_registered_though_the_disk_is_full_at_first() -> None:
    full = options(3)
    report = campaign(
        [7], type(full)(hours=0.01, faults=("full",), recover_hours=0.5, changes=full.changes)
    )
    assert report.bad == []


def test_every_question_is_answered_by_laws() -> None:
    assert {law for laws in QUESTIONS.values() for law in laws} <= set(CHECKERS)


def test_a_broken_law_is_counted_and_fails_the_campaign() -> None:
    tally = Tally()
    for question, laws in QUESTIONS.items():
        tally.add(Verdict(1, {laws[0]: ["a", "b"]}, "", 0.0, 0, 0, 0, {}))
        assert f"2 {question}" in tally.summary()
    assert tally.summary().startswith(f"0 of {len(QUESTIONS)} seeds clean")


def test_the_campaign_runs_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--seeds", "1", "--agents", "20"]) == 0
    assert "1 of 1 seeds clean: 0 double starts, 0 lost results" in capsys.readouterr().out


def test_the_page_says_the_size_of_the_short_form() -> None:
    text = (ROOT / "docs/explanation/proof.md").read_text("utf-8")
    assert f"{SEEDS} seeds of {AGENTS} agents" in text
