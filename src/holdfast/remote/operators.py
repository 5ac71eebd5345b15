"""Interventions, decisions and locks through a gateway. The same calls as their parts in `queue`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET

from holdfast.client.calls import Calls, path_of
from holdfast.core.check import check_choice, check_name, check_names, check_page
from holdfast.core.decision import Decision, DecisionState
from holdfast.core.intervention import EXPIRES_SECONDS, DryRun, Intervention, InterventionType
from holdfast.core.intervention_args import InterventionRequest, intervention_request
from holdfast.core.lease import Audit
from holdfast.errors import NotSupported
from holdfast.primitives.locks import LeaseInfo
from holdfast.queue import views
from holdfast.queue.by import By
from holdfast.store.decisions import AskedPoint
from holdfast.store.interventions import Issued


async def _page(
    http: Calls, path: str, query: dict[str, Any], after: str | None, limit: int
) -> list[dict[str, Any]]:
    """Up to `limit` items after the one with the id `after`. A gateway continues a list at its cursor, so the
    pages before are read again."""
    items: list[dict[str, Any]] = []
    cursor, is_before = None, after is not None
    while len(items) < limit:
        asked = {**query, "limit": limit, "after": cursor}
        body = (await http.call("GET", path, query=asked)).body
        for item in body["items"]:
            if not is_before:
                items.append(item)
            is_before = is_before and item["id"] != after
        cursor = body["next"]
        if cursor is None:
            break
    return items[:limit]


class RemoteInterventions:
    """See `queue.interventions.Interventions`."""

    def __init__(self, http: Calls) -> None:
        self._http = http

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
        expires_seconds: float | None = None,
    ) -> Intervention:
        request = intervention_request(
            type,
            reason,
            dict(args) if isinstance(args, Mapping) else args,
            id=id,
            expires_seconds=EXPIRES_SECONDS if expires_seconds is None else expires_seconds,
        )
        by = By(actor, reason, expected_version)
        return (await self.issue(task_id, request, by)).intervention

    async def issue(self, task_id: str, request: InterventionRequest, by: By) -> Issued:
        """Changes the task and records the intervention."""
        more = {
            "intervention_id": request.id,
            "expires_in_seconds": request.expires_seconds,
            "requested_by": request.requested_by,
        }
        body = await self._post(task_id, request, by, more)
        return Issued(views.read_intervention(body["intervention"]), views.read_task(body["task"]))

    async def foresee(self, task_id: str, request: InterventionRequest, by: By) -> DryRun:
        """What the intervention would do now. Changes nothing."""
        return views.read_dry_run(await self._post(task_id, request, by, {"dry_run": True}))

    async def _post(
        self, task_id: str, request: InterventionRequest, by: By, more: dict[str, Any]
    ) -> Any:
        check_name("task_id", task_id)
        body = {
            "type": request.type.value,
            "reason": request.reason,
            "args": dict(request.args),
            "expected_version": by.expected_version,
            **more,
        }
        path = path_of("tasks", task_id, "interventions")
        return (await self._http.call("POST", path, body)).body

    async def list(
        self, task_id: str, *, after: str | None = None, limit: int = 50
    ) -> list[Intervention]:
        """The interventions on a task, the latest first."""
        path = path_of("tasks", task_id, "interventions")
        items = await _page(self._http, path, {}, after, check_page(limit))
        return [views.read_intervention(item) for item in items]

    async def get(self, intervention_id: str) -> Intervention:
        path = path_of("interventions", check_name("intervention_id", intervention_id))
        return views.read_intervention((await self._http.call("GET", path)).body)


class RemoteDecisions:
    """See `queue.decisions.Decisions`."""

    def __init__(self, http: Calls) -> None:
        self._http = http

    async def list(
        self,
        *,
        state: DecisionState | str | None = None,
        assignees: Sequence[str] | None = None,
        projects: Sequence[str] | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> list[Decision]:
        """One page of the decisions that match, the latest first."""
        names = [] if assignees is None else list(check_names("assignees", assignees))
        if projects is not None or len(names) > 1:
            raise NotSupported(
                "a gateway lists the decisions of one assignee and of the projects of the token"
            )
        terms = [] if state is None else [f"state:{check_choice('state', state, DecisionState)}"]
        terms += [f"assignee:{name}" for name in names]
        query = {"q": " ".join(terms)}
        items = await _page(self._http, path_of("decisions"), query, after, check_page(limit))
        return [views.read_decision(item) for item in items]

    async def get(self, decision_id: str) -> Decision:
        return views.read_decision(await self._read(decision_id))

    async def asked_point(self, decision_id: str) -> AskedPoint | None:
        return views.read_asked_point((await self._read(decision_id))["checkpoint"])

    async def _read(self, decision_id: str) -> Any:
        path = path_of("decisions", check_name("decision_id", decision_id))
        return (await self._http.call("GET", path)).body

    async def decide(
        self,
        decision_id: str,
        choice: object,
        *,
        data: object = UNSET,
        reason: str = "",
        actor: str = "api",
        expected_version: int | None = None,
    ) -> Decision:
        by = By(actor, reason, expected_version)
        return await self.answer(decision_id, choice, by, data=data)

    async def answer(
        self, decision_id: str, choice: object, by: By, *, data: object = UNSET
    ) -> Decision:
        """Answers a decision and resumes its task."""
        body = {"choice": choice, "reason": by.reason, "expected_version": by.expected_version}
        if data is not UNSET:
            body["data"] = data
        path = path_of("decisions", check_name("decision_id", decision_id))
        return views.read_decision((await self._http.call("POST", path, body)).body)


class RemoteLocks:
    """See `queue.locks.LockAdmin`."""

    def __init__(self, http: Calls) -> None:
        self._http = http

    async def list(self, *, after: str = "", limit: int = 50) -> list[LeaseInfo]:
        """The held locks, by resource. `after`: the last resource of the previous page."""
        query = {"behind": after or None, "limit": check_page(limit)}
        body = (await self._http.call("GET", path_of("locks"), query=query)).body
        return [views.read_lock(item) for item in body["items"]]

    async def show(self, resource: str) -> LeaseInfo:
        """One lock with its waiters, in order, and its audit entries, the latest first."""
        return views.read_lock((await self._http.call("GET", path_of("locks", resource))).body)

    async def revoke(self, resource: str, by: By) -> Audit:
        """Revokes the lease of the holder. The fence rises, so late writes of the holder are refused."""
        by.of_unversioned("a lock")
        path = path_of("locks", resource, "revoke")
        return views.read_lock_act(
            (await self._http.call("POST", path, {"reason": by.reason})).body
        )
