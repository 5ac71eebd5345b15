"""Operations on groups of hosts: list, read, add, change, remove."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core.fleet.model import Group
from holdfast.core.rights import Operation
from holdfast.fleet.views import objects as views
from holdfast.gateway.operations.call import Answer, Call
from holdfast.gateway.operations.fleet.scope import page, place, project_of
from holdfast.queue.by import By

O: Final = Operation  # noqa: E741


class GroupBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group to add."""

    name: str
    selector: str
    project: str | None = None
    reason: str = ""


class GroupChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another selector of a group."""

    selector: str
    expected_version: int | None = None
    reason: str = ""


async def find(
    call: Call, *, project: str | None = None, after: str | None = None, limit: int = 100
) -> Answer:
    name = project_of(call, O.HOSTS_READ, project)
    of = f"groups {name}"
    rows = await call.services.fleet.groups.list(name, after=place(after, of=of), limit=limit)
    items = [views.group(row) for row in rows]
    return Answer(page(rows, limit, of=of, key=lambda group: group.name, items=items))


async def get(call: Call, group: str, *, project: str | None = None) -> Answer:
    name = project_of(call, O.HOSTS_READ, project)
    row = await call.services.fleet.groups.get(name, group)
    return Answer(views.group(row), version=row.version)


async def add(call: Call, body: GroupBody) -> Answer:
    project = project_of(call, O.HOSTS_WRITE, body.project)
    by = _by(call, project, body.name, body.reason, status=201)
    row = await call.services.fleet.groups.add(project, body.name, body.selector, by)
    return Answer(views.group(row), 201, row.version)


async def change(
    call: Call, group: str, body: GroupChange, *, project: str | None = None
) -> Answer:
    name = project_of(call, O.HOSTS_WRITE, project)
    by = _by(call, name, group, body.reason, expected_version=body.expected_version)
    with call.preconditions():
        row = await call.services.fleet.groups.edit(name, group, body.selector, by)
    return Answer(views.group(row), version=row.version)


async def remove(
    call: Call,
    group: str,
    *,
    project: str | None = None,
    reason: str = "",
    expected_version: int | None = None,
) -> Answer:
    name = project_of(call, O.HOSTS_WRITE, project)
    by = _by(call, name, group, reason, expected_version=expected_version)
    with call.preconditions():
        row = await call.services.fleet.groups.remove(name, group, by)
    return Answer(views.group(row), version=row.version)


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

    def answer(row: Group) -> Answer:
        return Answer(views.group(row), status, row.version)

    return call.by(
        O.HOSTS_WRITE,
        project=project,
        subject=f"group:{name}",
        actor=actor,
        reason=reason,
        expected_version=expected_version,
        answer=answer,
    )
