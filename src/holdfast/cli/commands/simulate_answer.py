"""The output of `holdfast simulate`: verdict, broken laws, commands to reproduce them, the smallest run.

Promises: every printed command reproduces exactly the run that it is printed with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.cli.options import Common
from holdfast.cli.output.printer import Printer
from holdfast.core import codec
from holdfast.sim.campaign import Options, Report, Verdict
from holdfast.sim.shrink import Shrunk
from holdfast.sim.swarm import Plan, differences, plan as drawn

COMPLAINTS_SHOWN = 20
"""Complaints shown for one law and seed; the rest is counted."""


class Answer(msgspec.Struct, frozen=True):
    """The data of the output."""

    report: Report
    options: Options
    small: Shrunk | None
    same: str
    """Options of the command line that are not part of a plan."""

    def command(self, plan: Plan) -> str:
        """The command that reproduces the run of this plan."""
        parts = [f"holdfast simulate --seed {plan.seed}"]
        for name, text in differences(plan, drawn(plan.seed)):
            if name in ("nodes", "faults", "hours"):
                parts.append(f"--{name} {text or 'none'}")
            else:
                parts.append(f"--set {name}={text}")
        return " ".join([*parts, self.same]).strip()


def print_answer(common: Common, answer: Answer) -> None:
    item = _item(answer)
    Printer(common).one(item, _fields(item, answer), name=item["trace_hash"])
    if Printer(common).is_table and answer.report.bad:
        verdict = answer.small.verdict if answer.small else answer.report.bad[0]
        which = "the smallest run" if answer.small else "its run"
        print(f"\nseed {verdict.seed}, {which}, around what was broken:\n\n{verdict.timeline}")


def _item(answer: Answer) -> dict[str, Any]:
    report = answer.report
    item: dict[str, Any] = {
        "verdict": "every law held" if report.is_good else "broken",
        "seeds": report.seeds,
        "hours": round(report.hours, 3),
        "trace_hash": report.trace_hash,
        "met": report.met,
        "never_met": list(report.never),
        "broken": [
            {
                "seed": verdict.seed,
                "laws": _cut(verdict.broken),
                "replay": answer.command(answer.options.plan(verdict.seed)),
            }
            for verdict in report.bad
        ],
    }
    if answer.small is not None:
        item["smallest"] = _smallest(answer, answer.small)
    return item


def _smallest(answer: Answer, small: Shrunk) -> dict[str, Any]:
    return {
        "seed": small.plan.seed,
        "law": small.law,
        "laws": _cut(small.verdict.broken),
        "replay": answer.command(small.plan),
        "faults": list(small.verdict.faults),
        "runs": small.runs,
        "trace_hash": codec.digest(small.verdict.trace_hash),
        "timeline": small.verdict.timeline.splitlines(),
    }


def _cut(broken: dict[str, list[str]]) -> dict[str, list[str]]:
    """Shows the first complaints of each law and counts the rest."""
    return {
        law: [*texts[:COMPLAINTS_SHOWN], *_more(texts, COMPLAINTS_SHOWN)]
        for law, texts in broken.items()
    }


def _more(texts: Sequence[str], shown: int) -> list[str]:
    return [f"and {len(texts) - shown} more"] if len(texts) > shown else []


def _fields(item: dict[str, Any], answer: Answer) -> list[tuple[str, object]]:
    met = ", ".join(f"{name} {n}" for name, n in sorted(item["met"].items()) if n) or "none"
    lines: list[tuple[str, object]] = [
        ("verdict", item["verdict"]),
        ("seeds", item["seeds"]),
        ("simulated hours", item["hours"]),
        ("faults met", met),
        ("trace hash", item["trace_hash"]),
    ]
    if item["never_met"]:
        lines.append(("never met", ", ".join(item["never_met"])))
    for verdict in answer.report.bad:
        lines += _complaints(verdict)
        lines.append(("again", answer.command(answer.options.plan(verdict.seed))))
    if answer.small is not None:
        lines.append(("smallest run", answer.command(answer.small.plan)))
        lines.append(("found in", f"{answer.small.runs} runs"))
        lines += _complaints(answer.small.verdict)
    return lines


def _complaints(verdict: Verdict) -> list[tuple[str, object]]:
    return [
        (f"seed {verdict.seed}", f"{law}: {' '.join([texts[0], *_more(texts, 1)])}")
        for law, texts in verdict.broken.items()
    ]
