"""The client of a gateway for asyncio.

    async with Client("http://127.0.0.1:8787", token="hf_user_…") as client:
        ref = await client.submit("mail", {"to": "ann"})
        print(await client.result(ref.id))

Promises: every write takes effect once, however often its answer is lost. An error of the gateway is the
class of its code (`holdfast.errors`). `scripts/client_fronts.py` writes the blocking form.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias, Unpack

import httpx2
import msgspec

from holdfast.client.address import read_addresses
from holdfast.client.admin_groups import Audit, Conflicts, Projects, Tokens
from holdfast.client.admin_models import Who
from holdfast.client.api import Api, Rows, decoded, given
from holdfast.client.fleet_groups import Blocks, HostGroups, Hosts
from holdfast.client.groups import (
    DeadLetters,
    Decisions,
    LockViews,
    Nodes,
    Operations,
    Queues,
    Schedules,
    TaskGroups,
    new_task,
)
from holdfast.client.http import TIMEOUT_SECONDS, Http, fresh_ids
from holdfast.client.job_groups import Jobs
from holdfast.client.models import (
    CheckpointView,
    DryRunView,
    EventView,
    Intervened,
    Intervention,
    Json,
    NewTask,
    OutputChunk,
    SubmitOptions,
    TaskRef,
    TaskRow,
    TaskView,
    Why,
)
from holdfast.client.outputs import FOLLOW_SECONDS, OUTPUT_BYTES, chunk_of
from holdfast.client.watch import OnReset, Watch
from holdfast.client.webhook_groups import Webhooks
from holdfast.clock import Clock, SystemClock
from holdfast.core.task import described
from holdfast.core.watching import backoff_seconds
from holdfast.errors import BadConfig, TaskFailed, VersionConflict, WaitTimeout
from holdfast.variables import variable

GATEWAY_VARIABLE: Final = "HOLDFAST_GATEWAY"
TOKEN_VARIABLE: Final = "HOLDFAST_TOKEN"
WAIT_SECONDS: Final = 25.0
"""The wait that one request asks for."""
ENDED: Final = frozenset({"completed", "failed", "aborted"})

InterventionType = Literal[
    "ABORT", "PAUSE", "RESUME", "RETRY", "REASSIGN", "RELEASE_LOCK", "FORCE_STATUS"
]


class TaskEdit(msgspec.Struct, frozen=True):
    """A change of a task's content, for `update_with_retry`."""

    payload: Json
    """A merge patch (RFC 7396)."""
    reason: str = ""


Change: TypeAlias = Callable[[TaskView], TaskEdit | Awaitable[TaskEdit | None] | None]


class Client:
    """See the module. `url` may be several gateways of one store: a list, or a text with
    commas. Without `url` and `token` the variables HOLDFAST_GATEWAY and HOLDFAST_TOKEN (or the
    file HOLDFAST_TOKEN_FILE) are read."""

    def __init__(
        self,
        url: str | Sequence[str] | None = None,
        token: str | None = None,
        *,
        project: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        ca: Path | None = None,
        clock: Clock | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        read = read_addresses(os.environ.get(GATEWAY_VARIABLE, "") if url is None else url)
        tls = read.tls if ca is None else msgspec.structs.replace(read.tls, ca=str(ca))
        self._http = Http(
            read.urls,
            token if token is not None else variable(os.environ, TOKEN_VARIABLE),
            clock or SystemClock(),
            fresh_ids(),
            timeout_seconds=timeout_seconds,
            verify=tls.context(),
            transport=transport,
        )
        self._api = Api(self._http)
        self._project = project
        self.queues = Queues(self._api)
        self.task_groups = TaskGroups(self._api, project)
        self.dead_letters = DeadLetters(self._api)
        self.operations = Operations(self._api)
        self.nodes = Nodes(self._api)
        self.locks = LockViews(self._api)
        self.schedules = Schedules(self._api)
        self.decisions = Decisions(self._api)
        self.conflicts = Conflicts(self._api)
        self.tokens = Tokens(self._api)
        self.projects = Projects(self._api)
        self.audit = Audit(self._api)
        self.hosts = Hosts(self._api, project)
        self.groups = HostGroups(self._api, project)
        self.blocks = Blocks(self._api, project)
        self.jobs = Jobs(self._api, project)
        self.webhooks = Webhooks(self._api, project)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections of this event loop. A later call opens others."""
        await self._http.close()

    # -- tasks -------------------------------------------------------------------------------------

    async def submit(
        self, type: str, payload: Json = None, **options: Unpack[SubmitOptions]
    ) -> TaskRef:
        """Enqueues a task. The options are those of `TaskQueue.enqueue`: queue, priority, max_attempts,
        delay, run_at, timeout, progress_timeout, key, idempotency_key, id, depends_on, metadata, tags,
        project, unique."""
        body = self._new_task({**options, "type": type, "payload": payload})
        answer = (await self._api.call("POST", "tasks", body=body)).body
        task = decoded(answer.get("task"), TaskView)
        return TaskRef(
            id=task.id,
            status=task.status,
            created=answer.get("created", True),
            pressure=answer.get("pressure", "accepted"),
            task=task,
        )

    async def submit_many(self, tasks: Sequence[NewTask]) -> list[TaskRef]:
        """Enqueues all tasks, or none."""
        body = {"tasks": [self._new_task({**task}) for task in tasks]}
        answer = (await self._api.call("POST", "tasks", "batch", body=body)).body
        rows = decoded(answer.get("items"), list[TaskRef])
        pressure = answer.get("pressure", "accepted")
        return [msgspec.structs.replace(row, pressure=pressure) for row in rows]

    def _new_task(self, fields: dict[str, object]) -> dict[str, object]:
        """The fields as the API names them."""
        return new_task(fields, self._project)

    async def get(self, task_id: str) -> TaskView:
        """One task with its bodies."""
        return await self._api.get(TaskView, "tasks", task_id)

    def tasks(self, q: str = "", *, limit: int | None = None) -> Rows[TaskRow]:
        """The tasks that match, page by page."""
        return self._api.rows(TaskRow, "tasks", limit=limit, q=q)

    async def wait(self, task_id: str, timeout: float | None = None) -> TaskView:
        """Waits for the end of a task, at most `timeout` seconds: WaitTimeout."""
        clock = self._http.clock
        deadline = None if timeout is None else clock.monotonic() + timeout
        while True:
            seconds = WAIT_SECONDS
            if deadline is not None:
                seconds = max(0.0, min(seconds, deadline - clock.monotonic()))
            task = await self._api.get(TaskView, "tasks", task_id, wait_seconds=round(seconds, 3))
            if task.status in ENDED:
                return task
            if deadline is not None and clock.monotonic() >= deadline:
                raise WaitTimeout.of_task(task_id, timeout or 0.0, task.status)

    async def result(self, task_id: str, timeout: float | None = None) -> Json:
        """Waits for the result of a task. TaskFailed if it ends without one."""
        task = await self.wait(task_id, timeout)
        if task.status != "completed":
            why = described(task.error or "", task.failure.error_type if task.failure else "")
            raise TaskFailed(f"task {task_id} is {task.status}: {why}".rstrip(": "), task)
        return task.result

    async def why(self, task_id: str) -> Why:
        """Why the task is not running."""
        return await self._api.get(Why, "tasks", task_id, "why")

    def history(self, task_id: str) -> Rows[EventView]:
        """The events of a task, oldest first."""
        return self._api.unpaged(EventView, "tasks", task_id, "history")

    def checkpoints(self, task_id: str) -> Rows[CheckpointView]:
        """The checkpoints of a task, oldest first."""
        return self._api.unpaged(CheckpointView, "tasks", task_id, "checkpoints")

    async def output(
        self,
        task_id: str,
        *,
        stream: str = "stdout",
        fence: int | None = None,
        start: int = 0,
        follow: bool = False,
    ) -> AsyncIterator[OutputChunk]:
        """What a task has written, from the byte `start` on. `follow`: until the stream is complete."""
        while True:
            query = given(stream=stream, fence=fence, start=start, limit_bytes=OUTPUT_BYTES)
            body = (await self._api.call("GET", "tasks", task_id, "output", query=query)).body
            chunk = chunk_of(body)
            fence = chunk.fence or fence
            if chunk.data or chunk.gaps:
                yield chunk
            is_at_end = chunk.next <= start
            start = max(start, chunk.next)
            if chunk.complete or (is_at_end and not follow):
                return
            if is_at_end:
                await self._http.clock.sleep(FOLLOW_SECONDS)

    async def edit(
        self, task_id: str, payload: Json, *, reason: str = "", expected_version: int | None = None
    ) -> TaskView:
        """Changes the payload of a waiting or dead task by a merge patch (RFC 7396)."""
        body = given(expected_version=expected_version)
        body |= {"payload": payload, "reason": reason}
        return await self._api.send(TaskView, "PATCH", "tasks", task_id, body=body)

    async def update_with_retry(
        self, task_id: str, change: Change, *, attempts: int = 3
    ) -> TaskView:
        """Reads the task, and writes what `change` makes of it. If another caller was first, both are done
        again. A `change` that returns None writes nothing."""
        if attempts < 1:
            raise BadConfig(f"attempts is {attempts}: at least 1 is needed")
        failures = 0
        while True:
            task = await self.get(task_id)
            edit = change(task)
            if inspect.isawaitable(edit):
                edit = await edit
            if edit is None:
                return task
            try:
                return await self.edit(
                    task_id, edit.payload, reason=edit.reason, expected_version=task.version
                )
            except VersionConflict:
                failures += 1
                if failures >= attempts:
                    raise
                jitter = self._http.ids.random_unit()
                await self._http.clock.sleep(backoff_seconds(failures - 1, jitter))

    async def copy(
        self, task_id: str, *, payload: Json = msgspec.UNSET, reason: str = ""
    ) -> TaskView:
        """Enqueues a task like this one, also if this one has completed."""
        body: dict[str, object] = {"reason": reason}
        if payload is not msgspec.UNSET:
            body["payload"] = payload
        return await self._api.send(TaskView, "POST", "tasks", task_id, "copy", body=body)

    # -- interventions -----------------------------------------------------------------------------

    async def intervene(
        self,
        task_id: str,
        type: InterventionType,
        *,
        reason: str,
        expected_version: int | None = None,
        intervention_id: str | None = None,
        expires_in_seconds: float | None = None,
        args: dict[str, Any] | None = None,
    ) -> Intervened:
        """Takes a task in hand. The store changes at once; `intervention.state` of the answer says whether
        the runner knows it. `preview` says before what it would do."""
        body = given(
            expected_version=expected_version,
            intervention_id=intervention_id,
            expires_in_seconds=expires_in_seconds,
            args=args,
        )
        body |= {"type": type, "reason": reason}
        return await self._api.send(
            Intervened, "POST", "tasks", task_id, "interventions", body=body
        )

    async def preview(
        self,
        task_id: str,
        type: InterventionType,
        *,
        expected_version: int | None = None,
        args: dict[str, Any] | None = None,
    ) -> DryRunView:
        """What an intervention would do now. It changes nothing, and raises what `intervene` would."""
        body = given(expected_version=expected_version, args=args)
        body |= {"type": type, "reason": "a preview: nothing changes", "dry_run": True}
        return await self._api.send(
            DryRunView, "POST", "tasks", task_id, "interventions", body=body
        )

    def interventions(self, task_id: str) -> Rows[Intervention]:
        """The interventions in a task."""
        return self._api.unpaged(Intervention, "tasks", task_id, "interventions")

    # -- the feed ----------------------------------------------------------------------------------

    def watch(
        self,
        channel: str,
        position: str | None = None,
        *,
        snapshot: bool = True,
        kinds: Sequence[str] = (),
        on_reset: OnReset = "snapshot",
    ) -> Watch:
        """The events of a channel such as `task:ID` or `project:NAME` as they happen: see `Watch`."""
        return Watch(
            self._http,
            channel,
            position=position,
            snapshot=snapshot,
            kinds=tuple(kinds),
            on_reset=on_reset,
        )

    async def position(self) -> str:
        """The end of the feed: events that happen after this call come after it."""
        answer = await self._api.call("GET", "whoami")
        return answer.position or ""

    # -- the gateway -------------------------------------------------------------------------------

    async def whoami(self) -> Who:
        """The principal of the token."""
        return await self._api.get(Who, "whoami")

    async def stats(self) -> dict[str, Any]:
        """Numbers of tasks, workers and nodes, from counters."""
        return await self._api.get(dict[str, Any], "stats")
