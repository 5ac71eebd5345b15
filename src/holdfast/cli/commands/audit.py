"""`holdfast audit list|verify`: the acts of operators, and whether their chain is whole."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.app import TaskQueue
from holdfast.cli.options import COMMON, Common, Limit
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.session import with_queue
from holdfast.core.check import check_page
from holdfast.core.wire import WHOLE_MAX
from holdfast.store.audit import AuditStore
from holdfast.sync import views

T = TypeVar("T")


def list_(*, limit: Limit = 50, common: Common = COMMON) -> None:
    """List acts of operators, the latest first."""
    check_page(limit)
    rows = _with_audit(common, lambda audit: audit.before(WHOLE_MAX, limit))
    Printer(common).rows([views.audit(row) for row in rows], _columns(), empty="no acts yet")


def verify(*, common: Common = COMMON) -> int:
    """Check that no audit row was changed or removed. Exit code 1 if one was."""
    head, wrong = _with_audit(common, lambda audit: audit.verify())
    item = views.audit_check(head, wrong)
    text = "whole" if wrong is None else f"broken at row {wrong}"
    Printer(common).one(item, [("audit", text), ("rows", str(head.seq)), ("head", head.hash)])
    return 0 if wrong is None else 1


def _with_audit(common: Common, work: Callable[[AuditStore], Awaitable[T]]) -> T:
    async def session(queue: TaskQueue) -> T:
        return await work(AuditStore((await queue.open()).store))

    return with_queue(common, session)


def _columns() -> list[Column]:
    return [
        Column("SEQ", lambda item: item["seq"]),
        Column("AT", lambda item: item["at"]),
        Column("ACTOR", lambda item: item["actor"], flex=True),
        Column("OPERATION", lambda item: item["operation"]),
        Column("SUBJECT", lambda item: item["subject"], flex=True),
        Column("REASON", lambda item: item["reason"], flex=True),
    ]
