"""How jobs and executions are printed, and the exit code that a job stands for.

Promises: the output is bounded, however many hosts a job has. Names and texts of hosts control no terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from holdfast.cli.output.table import Column, Item
from holdfast.cli.output.times import length, relative
from holdfast.cli.problem import PARTIAL
from holdfast.core.codec import dumps
from holdfast.core.errors import ApprovalNeeded, JobRejected
from holdfast.core.fleet.model import JOB_ENDED, JobStatus
from holdfast.core.fleet.status import KINDS, ExecutionKind
from holdfast.core.plural import noun_for
from holdfast.errors import WaitTimeout

EXCLUDED_SHOWN: Final = 10
CANARY: Final = "canary"
FOLDED_CHARS: Final = 200
"""Characters of a list of hosts in one line for people. `-o json` has all of them."""
JOB_STYLES: Final = {
    "NEW": "cyan",
    "QUEUED": "cyan",
    "WAIT_APPROVAL": "magenta",
    "RUNNING": "yellow",
    "PAUSED": "magenta",
    "BLOCKED": "magenta",
    "HALTING": "red",
    "SUCCESS": "green",
    "PARTIAL": "yellow",
    "FAILED": "red",
    "TIMEOUT": "red",
    "REJECTED": "red",
    "CANCELLED": "dim",
    "EXPIRED": "red",
}
EXITS: Final = {
    JobStatus.SUCCESS: 0,
    JobStatus.PARTIAL: PARTIAL,
    JobStatus.FAILED: 1,
    JobStatus.CANCELLED: 1,
    JobStatus.REJECTED: JobRejected.exit_code,
    JobStatus.EXPIRED: WaitTimeout.exit_code,
}
PENDING: Final = ApprovalNeeded.exit_code


def has_ended(job: Item) -> bool:
    return job["status"] in JOB_ENDED


def exit_code(job: Item) -> int:
    """Of a job that has ended."""
    return EXITS[JobStatus(job["status"])]


def made_exit(job: Item, *, created: bool) -> int:
    """Of a job that was made: 8 if it waits for an approval. Else how it ended, if an earlier request made
    it: that one made now has ended already is chance."""
    if job["status"] == JobStatus.WAIT_APPROVAL:
        return PENDING
    return exit_code(job) if job.get("finished_at") and not created else 0


def style(text: str) -> str:
    return JOB_STYLES.get(text, "")


def cut(text: str, most: int = FOLDED_CHARS) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def command_of(job: Item) -> str:
    text = f"{job['command_type']}: {job['command']}" if job["command"] else job["command_type"]
    args = f" {dumps(job['args'])}" if job.get("args") else ""
    return f"{text}{args}"


def done_of(job: Item) -> int:
    """How many hosts have ended. A job with counts has the newest figure; a row that of its rollout."""
    kinds: dict[str, int] | None = job.get("kinds")
    if kinds is None:
        return sum(job["ended"].values())
    return sum(n for kind, n in kinds.items() if KINDS[ExecutionKind(kind)].bucket is not None)


def counts_of(job: Item) -> str:
    """The executions by status, those that there are."""
    counts: dict[str, int] = job.get("counts") or job["ended"]
    held = (job.get("kinds") or {}).get(ExecutionKind.HELD_BY_BLOCK, 0)
    found = [f"{name} {count}" for name, count in counts.items() if count]
    return ", ".join(found) + (f" ({held} held by a block)" if held else "")


def kinds_of(job: Item) -> str:
    kinds = sorted(job["kinds"].items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{name} {count}" for name, count in kinds)


def waves_of(job: Item) -> str:
    """The waves: size and state of each."""
    if len(job["waves"]) < 2:
        return ""
    shown = [f"{wave['size']} {wave['state']}" for wave in job["waves"][:12]]
    more = [f"and {len(job['waves']) - 12} more"] if len(job["waves"]) > 12 else []
    return ", ".join([*shown, *more])


def sizes_of(job: Item) -> str:
    """The sizes of several waves."""
    return ", ".join(str(wave["size"]) for wave in job["waves"]) if len(job["waves"]) > 1 else ""


def budget_of(job: Item) -> str:
    return ", ".join(
        f"{name} {use['used']} of {use['limit']}" for name, use in sorted(job["budget"].items())
    )


def limits_of(job: Item) -> str:
    """What halts the job: in hosts, and the share that was asked for."""
    policy = job["rollout"]
    asked = policy["budgets"] | {CANARY: policy["canary_budget"]}
    found = []
    for name, use in sorted(job["budget"].items()):
        share = asked.get(name)
        of = f" ({share} of {job['hosts']})" if isinstance(share, str) else ""
        found.append(f"{name} {use['limit']}{of}")
    return ", ".join(found)


def window_of(job: Item) -> str:
    policy = job["rollout"]
    rate = policy["rate_per_second"]
    return f"{policy['max_in_flight']} at a time" + ("" if rate is None else f", {rate:g} a second")


def halt_of(job: Item) -> str | None:
    halt = job["halt"]
    if halt is None:
        return None
    return f"{halt['mode']} by {halt['actor']}: {halt['reason']}"


def approval_of(job: Item, *, with_end: bool = True) -> str | None:
    """Where the approval stands, and who may vote; `with_end`: and how long."""
    approval = job.get("approval")
    if approval is None:
        return None if job["approval_state"] == "NOT_REQUIRED" else job["approval_state"]
    need = ", ".join(
        f"{approval['have'].get(group, 0)} of {count} from {voters(group)}"
        for group, count in approval["need"].items()
    )
    left = approval["remaining_seconds"]
    ends = f"; ends in {length(left)}" if left is not None and with_end else ""
    not_by = f"; not by {', '.join(approval['excluded'])}" if approval["excluded"] else ""
    return f"{approval['state']}: {need}{not_by}{ends}"


def voters(group: str) -> str:
    """Whose votes count, of a group of a rule: it is numbered there."""
    return group.partition(": ")[2] or group


def rule_of(job: Item) -> str | None:
    """The rule that asks for the approval."""
    approval = job.get("approval")
    return None if approval is None else approval["rule"]


def votes_of(job: Item) -> list[tuple[str, object]]:
    votes = (job.get("approval") or {}).get("votes", ())
    return [
        (vote["verdict"], f"{vote['voter']}: {vote['reason']}")
        for vote in votes
        if vote["withdrawn_at"] is None
    ]


def excluded_of(found: Sequence[Item]) -> list[tuple[str, object]]:
    """Hosts that will not run, with why; bounded."""
    lines: list[tuple[str, object]] = [
        (
            "waits" if each.get("held") else "not run",
            f"{each['host']}: {each['detail'] or each['reason']}",
        )
        for each in found[:EXCLUDED_SHOWN]
    ]
    if (more := len(found) - EXCLUDED_SHOWN) > 0:
        lines.append(("not run", f"and {more} more: see -o json"))
    return lines


def job_lines(job: Item) -> list[tuple[str, object]]:
    """The fields that `job show` prints, in order."""
    glass = job["glass"]
    return [
        (job["id"], job["status"]),
        ("external id", job["external_id"]),
        ("command", command_of(job)),
        ("hosts", hosts_of(job)),
        ("ended", f"{done_of(job)} of {job['hosts']}"),
        ("counts", counts_of(job)),
        ("kinds", kinds_of(job)),
        ("corrected", corrected_of(job)),
        ("waves", waves_of(job)),
        ("window", window_of(job)),
        ("budget", budget_of(job)),
        ("halt", halt_of(job)),
        ("approval", approval_of(job)),
        *votes_of(job),
        ("break-glass", glass and f"{glass['actor']}, ticket {glass['ticket']}: {glass['reason']}"),
        *excluded_of(job["excluded"]),
        ("drift", _drift(job["drift"])),
        ("reason", job["reason"]),
        ("requested by", job["created_by"]),
        ("created", job["created_at"]),
        ("started", job["started_at"]),
        ("not after", None if has_ended(job) else job["not_after"]),
        ("finished", job["finished_at"]),
        ("eta", None if job["eta_seconds"] is None else f"in {length(job['eta_seconds'])}"),
        ("retry of", job["parent_job_id"]),
        ("digest", job["digest"]),
        ("version", job["version"]),
    ]


def corrected_of(job: Item) -> str | None:
    """Why the counts may not fit the status."""
    if not job.get("corrected"):
        return None
    n = job["corrected"]
    taken = f"by {n} {noun_for(n, 'late result')} that operators have taken over"
    return f"{taken}; the status is that of the end" if has_ended(job) else taken


def hosts_of(job: Item) -> str:
    """How many hosts, and which: the selector, or the names."""
    which = job["selector"] or cut(job.get("folded") or "")
    return f"{job['hosts']}" + (f" ({which})" if which else "")


def _drift(drift: dict[str, Any] | None) -> str | None:
    if drift is None:
        return None
    counts = [f"{name} {drift[f'{name}_count']}" for name in ("new", "gone", "changed")]
    return ", ".join(counts)


def job_columns(now: float) -> list[Column]:
    return [
        Column("ID", lambda item: item["id"]),
        Column("EXTERNAL ID", lambda item: item["external_id"], flex=True),
        Column("STATUS", lambda item: item["status"], style=style),
        Column("HOSTS", lambda item: f"{done_of(item)}/{item['hosts']}"),
        Column("FAILED", lambda item: _failed(item) or None),
        Column("CREATED", lambda item: relative(item["created_at"], now)),
        Column("BY", lambda item: item["created_by"], flex=True, rank=1),
        Column("COMMAND", command_of, flex=True),
    ]


def _failed(job: Item) -> int:
    counts: dict[str, int] = job["ended"]
    return counts.get("FAILED", 0) + counts.get("TIMEOUT", 0)


def _took(item: Item) -> str | None:
    seconds = item["duration_seconds"]
    return None if seconds is None else length(seconds)


EXECUTION_COLUMNS: Final = [
    Column("HOST", lambda item: item["host"], flex=True),
    Column("STATUS", lambda item: item["status"], style=style),
    Column("KIND", lambda item: item["kind"]),
    Column("WAVE", lambda item: item["wave"]),
    Column("EXIT", lambda item: item["exit_code"]),
    Column("TOOK", _took),
    Column("ID", lambda item: item["id"], rank=2),
    Column("REASON", lambda item: item["reason"], flex=True),
]
