"""Operations on projects: list, read, create, change of settings."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core.exchange.strategy import Strategy
from holdfast.core.rights import Operation
from holdfast.core.wire import check_project
from holdfast.gateway.operations.call import Answer, Call
from holdfast.queue.by import By
from holdfast.sync import views
from holdfast.sync.rows import ProjectRow

O: Final = Operation  # noqa: E741


class ProjectBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A project to create. `overrides`: the strategies of classes of fields."""

    id: str
    strategy: str = Strategy.MERGE.value
    overrides: dict[str, str] = {}
    reason: str = ""


class SettingsBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings to change. A field that is absent stays as it is."""

    strategy: str | None = None
    overrides: dict[str, str] | None = None
    reason: str = ""
    expected_version: int | None = None


async def find(call: Call) -> Answer:
    """The projects that the principal has access to."""
    call.authorise_any(O.TASKS_READ)
    rows = {row.id: row for row in await call.services.projects.list()}
    names = sorted(rows) if call.projects is None else sorted(call.projects)
    items = [
        views.project(rows[name]) if name in rows else views.project(ProjectRow(name))
        for name in names
    ]
    return Answer({"items": items, "next": None})


async def get(call: Call, project: str) -> Answer:
    """One project. A project that nothing has used yet has the defaults."""
    call.authorise_any(O.TASKS_READ)
    call.authorise(O.TASKS_READ, project=project, noun="project", id=project)
    row = await call.services.projects.get(project)
    return Answer(views.project(row), version=row.version)


async def create(call: Call, body: ProjectBody) -> Answer:
    by = _by(call, body.id, body.reason, status=201)
    row = await call.services.projects.create(
        body.id, by, strategy=body.strategy, overrides=body.overrides
    )
    return Answer(views.project(row), 201, row.version)


async def change(call: Call, project: str, body: SettingsBody) -> Answer:
    """Changes the strategies of a project."""
    by = _by(call, project, body.reason, expected_version=body.expected_version)
    with call.preconditions():
        row = await call.services.projects.put(
            project, by, strategy=body.strategy, overrides=body.overrides, must_exist=True
        )
    return Answer(views.project(row), version=row.version)


def _by(
    call: Call, project: str, reason: str, *, expected_version: int | None = None, status: int = 200
) -> By:
    call.authorise_any(O.PROJECTS_MANAGE)
    check_project("project", project)
    allowed = call.authorise(O.PROJECTS_MANAGE, project=project, noun="project", id=project)

    def answer(row: ProjectRow) -> Answer:
        return Answer(views.project(row), status, row.version)

    return call.by(
        O.PROJECTS_MANAGE,
        project=project,
        subject=project,
        actor=allowed.actor,
        reason=reason,
        expected_version=expected_version,
        answer=answer,
    )
