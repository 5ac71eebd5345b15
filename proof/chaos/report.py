"""The tables that a run prints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from proof.chaos.cases import CASES
from proof.chaos.registry import SUBJECTS
from proof.chaos.runner import Outcome
from proof.lab.report import markdown, table

HEADER = [
    "subject",
    "during",
    "recovered",
    "back after",
    "lost",
    "ended twice",
    "ran twice",
    "unfinished",
    "restart needed",
]


def row(outcome: Outcome) -> list[str]:
    if outcome.failed:
        return [outcome.subject, f"FAILED: {outcome.failed[:80]}", *[""] * (len(HEADER) - 2)]
    back = outcome.back_after_seconds
    return [
        outcome.subject,
        "-" if outcome.during is None else f"{outcome.during:,.0%}",
        f"{min(outcome.recovered, 1.0):.0%}",
        "never" if back is None else f"{back:.1f} s",
        f"{outcome.lost:,}",
        f"{outcome.ended_twice:,}",
        f"{outcome.ran_twice:,}",
        "?" if outcome.unfinished is None else f"{outcome.unfinished:,}",
        "yes" if outcome.needed_restart else "no",
    ]


def full(outcomes: Sequence[Outcome]) -> str:
    """One table per case."""
    parts = []
    for case in CASES:
        rows = [row(outcome) for outcome in outcomes if outcome.case == case.name]
        if rows:
            parts.append(f"\n{case.name}: {case.title}\n{table(HEADER, rows)}")
    return "\n".join(parts)


def summary(outcomes: Sequence[Outcome]) -> str:
    """All cases and subjects in one table of Markdown."""
    by_cell = {(outcome.case, outcome.subject): outcome for outcome in outcomes}
    subjects = [s.name for s in SUBJECTS if any(s.name == cell[1] for cell in by_cell)]
    rows = [
        [f"`{case.name}`", *(_cell(by_cell.get((case.name, subject))) for subject in subjects)]
        for case in CASES
    ]
    return markdown(["case", *subjects], rows)


def _cell(outcome: Outcome | None) -> str:
    """Recovered, after how long, and every problem."""
    if outcome is None or outcome.failed:
        return "" if outcome is None else "failed"
    back = outcome.back_after_seconds
    parts = [f"{min(outcome.recovered, 1.0):.0%}", "never" if back is None else f"{back:.1f} s"]
    wrong = {
        "lost": outcome.lost,
        "ended twice": outcome.ended_twice,
        "ran twice": outcome.ran_twice,
        "unfinished": outcome.unfinished or 0,
        "of 2 workers died": outcome.workers_died,
    }
    parts += [f"{count:,} {what}" for what, count in wrong.items() if count]
    return ", ".join(parts)


def merged(path: Path, fresh: Sequence[Outcome]) -> list[Outcome]:
    """The cells of a result file, with those measured now in their places."""
    known = [Outcome.from_dict(each) for each in json.loads(path.read_text())["outcomes"]]
    by_cell = {(outcome.case, outcome.subject): outcome for outcome in [*known, *fresh]}
    places = [(case.name, spec.name) for case in CASES for spec in SUBJECTS]
    return [by_cell[place] for place in places if place in by_cell]
