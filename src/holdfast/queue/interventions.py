"""Use cases of interventions: abort, pause, resume, retry, reassign, release or force a task.

Promises: the task changes at once, in one transaction with the intervention, its events and the audit. The
intervention shows how far the runner that lost the task has followed. A repeat of an id gets the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypedDict

import msgspec

from holdfast import errors
from holdfast.bus.port import FEED, WORK, of_node
from holdfast.core import intervention as rules
from holdfast.core.check import PAGE_MAX, check_name, check_number, check_page
from holdfast.core.command import Evidence, Instruction, OperatorCommand
from holdfast.core.decide import decide
from holdfast.core.event import Event
from holdfast.core.intervention import DryRun, Intervention, InterventionType, NewIntervention
from holdfast.core.intervention_args import InterventionRequest, command_of, intervention_request
from holdfast.core.transition import Refusal, Transition
from holdfast.core.wire import check_new_id
from holdfast.queue.by import By
from holdfast.queue.session import Sessions
from holdfast.queue.settings import SettingsInForce
from holdfast.queue.tasks import REFUSALS, Tasks
from holdfast.store.interventions import ACT, Act, Issued

LATE: Final = "task.late"
ALREADY: Final = "already-applied"


class InterveneOptions(TypedDict, total=False):
    """What an intervention may say beside its type and reason."""

    args: Mapping[str, Any]
    """REASSIGN: `to_node`, `fallback_seconds`; RETRY: `delay_seconds`, `payload`; FORCE_STATUS: `status`,
    `result` or `evidence`; ABORT and PAUSE: `grace_seconds`."""
    actor: str
    expected_version: int
    id: str
    """A repeat with the same id gets the same answer."""
    expires_seconds: float
    """How long the command is sent to the runner."""


class Interventions:
    """The use cases of interventions."""

    def __init__(self, sessions: Sessions, tasks: Tasks, settings: SettingsInForce) -> None:
        self._sessions = sessions
        self._tasks = tasks
        self._settings = settings

    async def intervene(
        self,
        task_id: str,
        type: InterventionType | str,
        reason: str,
        *,
        args: Mapping[str, Any] | None = None,
        actor: str = "api",
        expected_version: int | None = None,
        id: str | None = None,
        expires_seconds: float = rules.EXPIRES_SECONDS,
    ) -> Intervention:
        """Intervenes on behalf of an embedded caller."""
        request = intervention_request(
            type,
            reason,
            dict(args) if isinstance(args, Mapping) else args,
            id=id,
            expires_seconds=expires_seconds,
            fallback_seconds=self._settings.current.reassign_fallback_seconds,
        )
        by = By(actor, reason, expected_version)
        return (await self.issue(task_id, request, by)).intervention

    async def issue(
        self, task_id: str, request: InterventionRequest, by: By, *, act: Act = ACT
    ) -> Issued:
        """Changes the task and records the intervention. Raises an error for a refusal of the core."""
        check_name("task_id", task_id)
        return await self._tasks.by_name(
            task_id, lambda found: self._issue(found, request, by, act)
        )

    async def _issue(self, task_id: str, request: InterventionRequest, by: By, act: Act) -> Issued:
        resources = await self._sessions.open()
        store = resources.store
        given = request.id
        new = NewIntervention(
            id=store.interventions.new_id() if given is None else check_new_id("id", given),
            task_id=task_id,
            type=request.type,
            command=await self._command(task_id, request, by),
            actor=by.actor,
            reason=request.reason,
            args_json=request.args_json,
            requested_by=request.requested_by,
            expected_version=by.expected_version,
            expires_seconds=check_number("expires_seconds", request.expires_seconds),
        )
        answer = await store.interventions.issue(new, act=act, beside=by.beside)
        if isinstance(answer, Refusal):
            raise _error(answer)
        if answer.is_cut_short:
            store.cascades.on_cut_short()
        if not answer.is_repeat:
            if answer.task.assigned_to is not None:
                resources.bus.publish(of_node(answer.task.assigned_to))
            resources.bus.publish(WORK)
            resources.bus.publish(FEED)
            self._sessions.here.ended([answer.task])
            # A runner in this process notices the change at once, one elsewhere with its next heartbeat.
            self._sessions.call_engine(lambda engine: engine.heartbeat.wake())
        return answer

    async def foresee(self, task_id: str, request: InterventionRequest, by: By) -> DryRun:
        """What the intervention would do now. Changes nothing."""
        task = await self._tasks.get(task_id)
        store = (await self._sessions.open()).store
        if request.to_node is not None:
            await store.interventions.check_node(request.to_node, task)
        command = await self._command(task.id, request, by)
        now = store.now()
        ruling = decide(task, Instruction(task.id, command, version=by.expected_version), now)
        if isinstance(ruling, Refusal) and ruling.code != ALREADY:
            raise _error(ruling)
        dependents = len(await store.reads.dependents(task.id, PAGE_MAX))
        moved = ruling if isinstance(ruling, Transition) else None
        return rules.foreseen(task, moved, dependents=dependents, now=now)

    async def list(
        self, task_id: str, *, after: str | None = None, limit: int = 50
    ) -> list[Intervention]:
        """Returns one page of the interventions on a task, the latest first."""
        task = await self._tasks.get(task_id)
        store = (await self._sessions.open()).store
        return await store.interventions.of_task(task.id, after=after, limit=check_page(limit))

    async def get(self, intervention_id: str) -> Intervention:
        """Returns one intervention. Raises NotFound if it does not exist."""
        check_name("intervention_id", intervention_id)
        store = (await self._sessions.open()).store
        intervention = await store.interventions.get(intervention_id)
        if intervention is None:
            raise errors.NotFound(f"there is no intervention {intervention_id}")
        return intervention

    async def _command(self, task_id: str, request: InterventionRequest, by: By) -> OperatorCommand:
        affinity = None
        if request.type is InterventionType.RESUME:
            affinity = await self._tasks.affinity(task_id)
        evidence = await self._evidence(task_id, request)
        return command_of(request, by.actor, evidence, affinity)

    async def _evidence(self, task_id: str, request: InterventionRequest) -> Evidence | None:
        """The late result at the position that the request names."""
        if request.evidence is None:
            return None
        for event in await self._tasks.history(task_id):
            if str(event.position) == request.evidence and event.kind == LATE:
                return _evidence_of(event)
        raise errors.InvalidInput(
            f"evidence {request.evidence} is not a late result of task {task_id}: give the position of an "
            "event task.late of its history"
        )


def _evidence_of(event: Event) -> Evidence:
    if "result" not in event.data:
        raise errors.InvalidInput(
            f"the late result at {event.position} is an error, or was too long to be kept: give a result"
        )
    result_json = msgspec.json.encode(event.data["result"]).decode()
    return Evidence(int(event.data["fence"]), result_json)


def _error(refusal: Refusal) -> errors.HoldfastError:
    error = REFUSALS.get(refusal.code, errors.Conflict)(refusal.message)
    task = refusal.current
    if isinstance(error, errors.VersionConflict) and task is not None:
        error.current = {"status": task.status.value, "version": task.version}
    return error
