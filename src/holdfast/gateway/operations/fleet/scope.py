"""What the operations of the fleet share: the project of a request, and pages by name or id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from holdfast.core.rights import Operation, PrincipalKind
from holdfast.core.wire import make_cursor, parse_id_cursor
from holdfast.gateway.operations.call import Call
from holdfast.queue.views import View

T = TypeVar("T")


def project_of(call: Call, operation: Operation, given: str | None) -> str:
    """The project that a request names, or else that of the principal. Judged for the operation. An agent
    passes with rights to its own host: the caller shows it nothing else (`own_host`)."""
    own = call.principal.node
    call.authorise_any(operation, owner_node=own)
    project = call.home if given is None else given
    call.authorise(operation, project=project, owner_node=own, noun="project", id=project)
    return project


def own_host(call: Call) -> str | None:
    """The only host that the principal may read: that of an agent. None: all of its projects."""
    is_agent = call.principal.kind is PrincipalKind.AGENT
    return (call.principal.node or "") if is_agent else None


def place(after: str | None, *, of: str) -> str:
    """The last name or id of the page before."""
    return "" if after is None else parse_id_cursor(after, of=of)


def page(
    rows: Sequence[T], limit: int, *, of: str, key: Callable[[T], str], items: list[View]
) -> dict[str, object]:
    """The body of a page. `rows` are those of the store, `items` how they are shown."""
    following = make_cursor((key(rows[-1]),), of=of) if len(rows) == limit else None
    return {"items": items, "next": following}
