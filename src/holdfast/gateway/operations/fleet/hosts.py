"""Operations on hosts: list, read, add, change, remove, import, select."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from holdfast.core.fleet.hosts.entry import HostEntry
from holdfast.core.fleet.hosts.inventory import InventoryFormat, read_inventory
from holdfast.core.fleet.hosts.listing import Inventory
from holdfast.core.fleet.model import Host
from holdfast.core.rights import Operation
from holdfast.errors import InvalidInput, NotFound
from holdfast.fleet.hosts.details import HostDetails
from holdfast.fleet.views import objects as views
from holdfast.fleet.views.whole import whole_host
from holdfast.gateway.operations.call import Answer, Call, missing
from holdfast.gateway.operations.fleet.scope import own_host, page, place, project_of
from holdfast.queue.by import By

O: Final = Operation  # noqa: E741


class HostBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A host to add."""

    name: str
    driver: str = "agent"
    address: str = ""
    labels: dict[str, str] = {}
    project: str | None = None
    reason: str = ""


class HostChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields to change. A label of null is removed; a field that is absent stays as it is."""

    driver: str | None = None
    address: str | None = None
    labels: dict[str, str | None] | None = None
    state: str | None = None
    expected_version: int | None = None
    reason: str = ""


class HostImportBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hosts to add and to change: as entries, or as a text in one of the formats of inventories."""

    hosts: list[HostEntry] | None = None
    text: str | None = None
    format: InventoryFormat = InventoryFormat.JSONL
    groups: bool = False
    """Whether the groups of the text are added and changed too."""
    project: str | None = None
    reason: str = ""


async def find(
    call: Call,
    *,
    project: str | None = None,
    selector: str | None = None,
    state: str | None = None,
    q: str | None = None,
    silent: bool = False,
    after: str | None = None,
    limit: int = 100,
) -> Answer:
    """One page by name. `q`: text that the names contain. `silent`: whose agents are not heard of."""
    name, own = project_of(call, O.HOSTS_READ, project), own_host(call)
    of = f"hosts {name} {selector} {state} {q} {silent}"
    if silent and (selector, state, q) != (None, None, None):
        raise InvalidInput("silent stands alone: leave out selector, state and q")
    if silent:
        rows = await call.services.fleet.host_reads.silent(
            name, after=place(after, of=of), limit=limit
        )
    else:
        rows = await call.services.fleet.hosts.list(
            name,
            selector=selector,
            state=state,
            part=q,
            after=place(after, of=of),
            limit=limit,
            only=own,
        )
    rows = [row for row in rows if own in (None, row.id)]
    found = await call.services.fleet.host_reads.details(rows)
    now = call.services.now()
    items = [views.host_row(details, now) for details in found]
    return Answer(page(rows, limit, of=of, key=lambda host: host.name, items=items))


async def get(call: Call, host: str, *, project: str | None = None) -> Answer:
    name = project_of(call, O.HOSTS_READ, project)
    own = own_host(call)
    if own is not None and (await call.services.fleet.hosts.find(name, [host])).unknown:
        raise missing("host", host)  # as for a host that it may not see
    row = await call.services.fleet.hosts.get(name, host)
    if own not in (None, row.id):
        raise missing("host", host)
    body = await whole_host(call.services.fleet, row, call.services.now())
    return Answer(body, version=row.version)


async def select(call: Call, *, selector: str, project: str | None = None) -> Answer:
    """The hosts that a selector stands for now. A job pins them when it is made."""
    name = project_of(call, O.HOSTS_READ, project)
    found = await call.services.fleet.hosts.select(name, selector, only=own_host(call))
    return Answer(views.selection(selector, [host.name for host in found]))


async def add(call: Call, body: HostBody) -> Answer:
    project = project_of(call, O.HOSTS_WRITE, body.project)
    entry = HostEntry(name=body.name, driver=body.driver, address=body.address, labels=body.labels)
    by = _by(call, project, body.name, body.reason, status=201)
    row = await call.services.fleet.hosts.add(project, entry, by)
    return _answer(call, row, status=201)


async def change(call: Call, host: str, body: HostChange, *, project: str | None = None) -> Answer:
    name = project_of(call, O.HOSTS_WRITE, project)
    await call.check_answered(O.HOSTS_WRITE)
    row = await call.services.fleet.hosts.get(name, host)
    by = _by(call, name, row.name, body.reason, expected_version=body.expected_version)
    with call.preconditions():
        row = await call.services.fleet.hosts.edit(
            row.id,
            by,
            labels=body.labels,
            address=body.address,
            driver=body.driver,
            state=body.state,
        )
    return _answer(call, row)


async def remove(
    call: Call,
    host: str,
    *,
    project: str | None = None,
    reason: str = "",
    expected_version: int | None = None,
) -> Answer:
    """The host gets no executions any more. Those that run on it go on."""
    name = project_of(call, O.HOSTS_WRITE, project)
    await call.check_answered(O.HOSTS_WRITE)
    row = await call.services.fleet.hosts.get(name, host)
    by = _by(call, name, row.name, reason, expected_version=expected_version)
    with call.preconditions():
        row = await call.services.fleet.hosts.remove(row.id, by)
    return _answer(call, row)


async def import_hosts(call: Call, body: HostImportBody) -> Answer:
    """Adds and changes many hosts. A wrong entry is named in the answer; the others are imported."""
    project = project_of(call, O.HOSTS_WRITE, body.project)
    if (body.hosts is None) == (body.text is None):
        raise InvalidInput("give either hosts or text, not both and not none")
    read = Inventory(entries=tuple(body.hosts or ()))
    if body.text is not None:
        read = await asyncio.to_thread(read_inventory, body.text, body.format)
    held = await call.begin_repeatable(O.HOSTS_WRITE)
    done = await call.services.fleet.hosts.import_(
        project, read.entries, _import_by(call, project, "hosts", body.reason)
    )
    groups = await _import_groups(call, project, read, body) if body.groups else []
    wrong = [{"line": problem.line, "message": problem.message} for problem in read.problems]
    answer = Answer(
        views.imported(done, errors=wrong, more_errors=read.more_problems, groups=groups)
    )
    await call.end_repeatable(held, answer)
    return answer


async def _import_groups(
    call: Call, project: str, read: Inventory, body: HostImportBody
) -> list[str]:
    """Returns the groups that were added or changed."""
    groups = call.services.fleet.groups
    changed = []
    for name, selector in read.groups.items():
        by = _import_by(call, project, f"group:{name}", body.reason)
        try:
            known = await groups.get(project, name)
        except NotFound:
            await groups.add(project, name, selector, by)
        else:
            if known.selector == selector:
                continue
            await groups.edit(project, name, selector, by)
        changed.append(name)
    return changed


def _import_by(call: Call, project: str, subject: str, reason: str) -> By:
    actor = call.authorise(O.HOSTS_WRITE, project=project).actor
    return call.by(O.HOSTS_WRITE, project=project, subject=subject, actor=actor, reason=reason)


def _by(
    call: Call,
    project: str,
    name: str,
    reason: str,
    *,
    expected_version: int | None = None,
    status: int = 200,
) -> By:
    actor = call.authorise(O.HOSTS_WRITE, project=project).actor
    return call.by(
        O.HOSTS_WRITE,
        project=project,
        subject=f"host:{name}",
        actor=actor,
        reason=reason,
        expected_version=expected_version,
        answer=lambda row: _answer(call, row, status=status),
    )


def _answer(call: Call, row: Host, *, status: int = 200) -> Answer:
    """A changed host. Its agent, slot and groups are read with the host itself."""
    return Answer(views.host_row(HostDetails(row), call.services.now()), status, row.version)
