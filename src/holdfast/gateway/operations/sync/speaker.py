"""What the operations of `/api/v2/sync` share: who speaks, which task is meant, and refusals."""

from __future__ import annotations

from typing import Any

from holdfast.core.access import ALL_PROJECTS, Allowed, DenialReason, named_node
from holdfast.core.check import check_whole
from holdfast.core.exchange.sync_errors import MEANINGS, SyncError
from holdfast.core.rights import Operation
from holdfast.core.speaking import Voice
from holdfast.core.wire import WHOLE_MAX, check_project
from holdfast.errors import InvalidInput, NotFound
from holdfast.gateway.operations.call import Answer, Call, missing
from holdfast.gateway.operations.sync import views
from holdfast.sync.exchange.exchange import read_tasks
from holdfast.sync.names import Found, find_task
from holdfast.sync.rows import RegisteredNode, unknown_node
from holdfast.sync.speaking import check_voice
from holdfast.sync.sync_task import SyncTask


async def speaker(
    call: Call,
    node_id: str | None,
    operation: Operation,
    *,
    project: str | None = None,
    incarnation: int | None = None,
) -> tuple[RegisteredNode, Voice]:
    """The node that the request speaks for: the credential's, or one that an administrator names. A write
    judges the voice again in its transaction."""
    name = node_id if node_id is not None else call.principal.node
    if name is None:
        call.authorise_any(operation, owner_node="")
        raise InvalidInput("nodeId is missing: name the node that speaks")
    verdict = named_node(call.principal, name, project=call.home if project is None else project)
    if not isinstance(verdict, Allowed):
        if verdict.reason is DenialReason.PROJECT and project is not None:
            raise missing("project", project)
        raise verdict.error()
    row = await call.services.nodes.get(name)
    if call.projects is not None and row.project not in call.projects:
        raise unknown_node(name)
    if incarnation is not None:
        check_whole("incarnation", incarnation, least=0, most=WHOLE_MAX)
    voice = Voice(name, incarnation)
    check_voice(row, voice)
    if project is not None and row.project != check_project("projectId", project):
        raise missing("project", project)
    call.authorise(operation, project=row.project, owner_node=row.id, noun="node", id=name)
    if call.principal.node == row.id:
        await call.services.nodes.note(row, voice)
    return row, voice


async def named_task(call: Call, name: str, project: str | None) -> Found:
    """The task that a path names."""
    projects = call.projects
    visible = {ALL_PROJECTS} if projects is None else projects
    return await find_task(call.services.store, name, project=project, projects=visible)


async def seen_task(call: Call, task_id: str) -> SyncTask:
    tasks = await call.services.store.read(lambda: read_tasks([task_id]))
    if not tasks:
        raise NotFound(f"there is no task '{task_id}'")
    return tasks[0]


def refused(
    call: Call, error: SyncError, detail: str, state: SyncTask | None = None, **fields: Any
) -> Answer:
    """A refusal of a single object, with the authoritative state."""
    meaning = MEANINGS[error]
    body: dict[str, Any] = {
        "type": f"urn:holdfast:error:{meaning.code}",
        "title": meaning.when,
        "status": meaning.http_status,
        "code": meaning.code,
        "detail": detail,
        "retryable": False,
        "instance": call.request_id,
        "success": False,
        "error": error.value,
        **fields,
    }
    if state is not None:
        body["serverState"] = views.task(state, call.services.now(), bodies=False)
    return Answer(body, meaning.http_status)
