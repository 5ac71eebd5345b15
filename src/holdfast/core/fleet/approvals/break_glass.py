"""Break-glass: a job that starts without its approval, in an emergency.

Promises: it needs a reason and a ticket, reaches few hosts, and leaves a record that another person has to
review before the next use. Never: I/O.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from holdfast.core.check import check_name, check_text
from holdfast.core.errors import ApprovalNeeded, CommandRefused, SelfApproval
from holdfast.core.fleet.model import ApprovalState
from holdfast.errors import IllegalTransition, InvalidInput


class BreakGlass(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a job that skipped its approval."""

    actor: str
    reason: str
    ticket: str
    at: float
    reviewed_by: str | None = None
    reviewed_at: float | None = None
    note: str = ""


def break_glass(
    state: ApprovalState,
    *,
    actor: str,
    reason: str,
    ticket: str,
    hosts: int,
    max_hosts: int,
    unreviewed: Sequence[str] = (),
    now: float,
) -> BreakGlass:
    """The record of a job that starts now. `unreviewed` are the jobs whose use was not reviewed yet."""
    if not check_text("reason", reason).strip():
        raise InvalidInput("reason is empty: say what the emergency is")
    if not ticket.strip():
        raise InvalidInput("ticket is empty: name the ticket of the emergency")
    check_name("ticket", ticket)
    if state is not ApprovalState.WAIT_APPROVAL:
        raise IllegalTransition(f"the approval of the job is {state}: there is nothing to skip")
    if hosts > max_hosts:
        raise CommandRefused(
            f"the job has {hosts} hosts: without an approval at most {max_hosts} are reached at once"
        )
    if unreviewed:
        raise ApprovalNeeded(
            f"job {unreviewed[0]} skipped its approval and was not reviewed: review it first"
        )
    return BreakGlass(actor=actor, reason=reason, ticket=ticket, at=now)


def reviewed(record: BreakGlass, *, by: str, note: str, now: float) -> BreakGlass:
    """The record after its review; the same object if it was reviewed before."""
    if by == record.actor:
        raise SelfApproval(f"{by} used it: another person reviews it")
    if record.reviewed_by is not None:
        return record
    return replace(record, reviewed_by=by, reviewed_at=now, note=check_text("note", note))
