"""The result of a run as text and as JSON."""

from __future__ import annotations

from collections import Counter
from typing import Any

from proof.hub.evidence import Evidence
from proof.lab.report import table

SHOWN_MAX = 8


def figures(evidence: Evidence) -> dict[str, Any]:
    """What the run did."""
    reports = evidence.reports.values()
    seen = evidence.seen()
    statuses = Counter(row["status"] for row in evidence.tasks if row["project"] == "default")
    kinds = Counter(event.kind for event in evidence.events)
    return {
        "events": len(evidence.events),
        "items shown to watchers": sum(map(len, seen.values())),
        "watchers": len(evidence.watchers),
        "connections reset": sum(report["resets"] for report in reports),
        "connections of watchers": sum(sum(r["connections"].values()) for r in reports),
        "tasks by status": dict(statuses),
        "starts": kinds["task.started"],
        "lost leases": kinds["task.lost"],
        "late results refused": kinds["task.late"],
        "interventions": kinds["intervention.issued"],
        "decisions": kinds["decision.decided"],
        "changes of offline nodes": sum(len(node.made) for node in evidence.replicas),
        "changes refused": sum(len(node.refused) for node in evidence.replicas),
        "tasks of offline nodes": len(evidence.replicas[-1].tasks) if evidence.replicas else 0,
        "requests repeated": evidence.retries,
        "refusals": evidence.refusals,
        "faults": evidence.faults,
        "process starts": {kept.name: kept.starts for kept in evidence.processes},
        "ended before ready": {k.name: k.early for k in evidence.processes if k.early},
        "longest stop": max(
            ((round(s, 1), k.name) for k in evidence.processes for s, _ in k.stops), default=()
        ),
        "seconds until all was quiet": round(evidence.quiet_seconds, 1),
    }


def as_dict(evidence: Evidence, verdict: dict[str, list[str]]) -> dict[str, Any]:
    return {
        "seed": evidence.plan.seed,
        "seconds": evidence.plan.seconds,
        "figures": figures(evidence),
        "complaints": verdict,
        "fault_log": evidence.fault_log,
    }


def as_text(result: dict[str, Any]) -> str:
    """The verdict on each law, the complaints, the figures."""
    complaints: dict[str, list[str]] = result["complaints"]
    laws = [[law, str(len(texts)) if texts else "holds"] for law, texts in complaints.items()]
    parts = [
        f"seed {result['seed']}, {result['seconds']:.0f} s",
        table(["law", "complaints"], laws),
    ]
    for law, texts in complaints.items():
        if texts:
            more = [f"  … {len(texts) - SHOWN_MAX} more"] if len(texts) > SHOWN_MAX else []
            shown = [f"  {text}" for text in texts[:SHOWN_MAX]]
            parts.append("\n".join([f"{law}:", *shown, *more]))
    parts.append("\n".join(f"{name}: {value}" for name, value in result["figures"].items()))
    return "\n\n".join(parts)
