"""Operations on presets: the views of tasks and the templates of commands that a project shares."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.core.preset import check_kind
from holdfast.core.rights import Operation
from holdfast.gateway.operations.call import Answer, Call
from holdfast.gateway.operations.fleet.scope import project_of
from holdfast.queue.by import By
from holdfast.sync import views
from holdfast.sync.presets import Preset

O: Final = Operation  # noqa: E741


class PresetBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What to keep. Of a view: `{"q": SEARCH}`. Of a template: fields of a request for a job."""

    body: dict[str, Any]
    project: str | None = None
    reason: str = ""
    expected_version: int | None = None


async def find(call: Call, *, kind: str) -> Answer:
    """The presets of a kind in the projects of the caller, by project and name."""
    call.authorise_any(O.PRESETS_READ)
    rows = await call.services.presets.list(kind, projects=call.projects)
    return Answer({"items": [views.preset(row) for row in rows], "next": None})


async def put(call: Call, kind: str, name: str, body: PresetBody) -> Answer:
    """Keeps a body under a name."""
    by = _by(call, kind, name, body.project, body.reason, version=body.expected_version)
    project = project_of(call, O.PRESETS_WRITE, body.project)
    with call.preconditions():
        return _answer(await call.services.presets.put(project, kind, name, body.body, by))


async def remove(
    call: Call, kind: str, name: str, *, project: str | None = None, reason: str = ""
) -> Answer:
    by = _by(call, kind, name, project, reason)
    where = project_of(call, O.PRESETS_WRITE, project)
    with call.preconditions():
        return _answer(await call.services.presets.remove(where, kind, name, by))


def _by(
    call: Call,
    kind: str,
    name: str,
    project: str | None,
    reason: str,
    *,
    version: int | None = None,
) -> By:
    where = project_of(call, O.PRESETS_WRITE, project)
    return call.by(
        O.PRESETS_WRITE,
        project=where,
        subject=f"{check_kind(kind).value} {name}",
        actor=call.authorise(O.PRESETS_WRITE, project=where).actor,
        reason=reason,
        expected_version=version,
        answer=_answer,
    )


def _answer(row: Preset) -> Answer:
    return Answer(views.preset(row), version=row.version)
