"""Operators behind gateways: they submit, intervene and decide, and repeat what got no answer."""

from __future__ import annotations

from typing import Any, Final

from holdfast.client.calls import path_of
from holdfast.client.http import Http
from holdfast.core.errors import GatewayUnavailable
from holdfast.errors import HoldfastError
from holdfast.queue.queue import Queue
from holdfast.sim.draw import Draw
from holdfast.sim.handler_outcomes import STALLING, TYPES
from holdfast.sim.hub.links import http_of
from holdfast.sim.hub.sockets import Sockets
from holdfast.sim.hub_history import HubHistory, Intervened
from holdfast.sim.node import Node

ACT_SECONDS: Final = 4.0
EXPIRES_SECONDS: Final = 30.0
REPEATS_MAX: Final = 6
KINDS: Final = ("ABORT", "PAUSE", "RESUME", "RETRY", "REASSIGN", "RELEASE_LOCK", "FORCE_STATUS")


class GatewayOperator:
    """The main of an operator's node."""

    def __init__(self, sockets: Sockets, history: HubHistory, draw: Draw) -> None:
        self._sockets = sockets
        self._history = history
        self._draw = draw
        self.is_calm = False

    async def main(self, node: Node, _: Queue) -> None:
        draw = self._draw.stream(node.life)
        acts = _Acts(http_of(node, draw, self._sockets), node, self._history, draw)
        while not self.is_calm:
            await node.clock.sleep(draw.wait(ACT_SECONDS))
            verb = draw.pick(
                (acts.submit, acts.submit, acts.intervene, acts.intervene, acts.decide)
            )
            try:
                await verb()
            except HoldfastError as error:
                if error.code in {"internal", "engine-failed"}:
                    raise
                node.cluster.trace.sometimes(f"operator {error.code}")


class _Acts:
    """What one process of an operator does."""

    def __init__(self, http: Http, node: Node, history: HubHistory, draw: Draw) -> None:
        self._http = http
        self._node = node
        self._history = history
        self._draw = draw
        self._requests = 0

    async def submit(self) -> None:
        """Enqueues, and repeats under the same idempotency key."""
        self._requests += 1
        key = f"{self._node.life}-{self._requests}"
        task_type = self._draw.pick((*TYPES, STALLING, STALLING))
        body: dict[str, Any] = {"type": task_type, "payload": None, "idempotency_key": key}
        if task_type == "keyed":
            body["key"] = "ada"
        answer = await self._until_answered(path_of("tasks"), body)
        self._node.cluster.record.acked(answer["task"]["id"], task_type, key)

    async def intervene(self) -> None:
        """Intervenes under one id, and repeats it until it is answered."""
        record = self._node.cluster.record
        if not record.acks:
            return
        task_id = self._draw.pick(record.acks[-10:]).task_id
        self._requests += 1
        name = f"{self._node.life}:{self._requests}"
        kind = self._draw.pick(KINDS)
        args: dict[str, Any] = {}
        if kind == "FORCE_STATUS":
            args["status"] = "queued"
        elif kind == "REASSIGN":
            args |= {"to_node": self._draw.pick(("w0", "r0")), "fallback_seconds": 5.0}
        body = {
            "type": kind,
            "reason": "by the simulation",
            "args": args,
            "intervention_id": name,
            "expires_in_seconds": EXPIRES_SECONDS,
        }
        path = path_of("tasks", task_id, "interventions")
        for n in range(self._draw.whole(1, 2)):
            answer = await self._until_answered(path, body)
            got = answer["intervention"]["id"]
            self._history.intervened.append(Intervened(name, got, kind, task_id))
            self._node.cluster.trace.sometimes("intervened-again" if n else "intervened")

    async def decide(self) -> None:
        """Answers open decisions, sometimes with another choice after the first one."""
        found = await self._http.call("GET", path_of("decisions"), query={"q": "state:open"})
        for row in found.body["items"][:3]:
            for choice in self._draw.pick((("yes",), ("no",), ("yes", "no"), ("no", "yes"))):
                path = path_of("decisions", row["id"])
                answer = await self._until_answered(path, {"choice": choice})
                chosen = str(answer["choice"])
                self._history.answered.setdefault(row["id"], []).append(chosen)
                self._node.cluster.trace.sometimes("decided")

    async def _until_answered(self, path: str, body: dict[str, Any]) -> Any:
        """Repeats a request whose answer was lost, as another request with the same ids."""
        for _ in range(REPEATS_MAX):
            try:
                return (await self._http.call("POST", path, body)).body
            except GatewayUnavailable:
                self._node.cluster.trace.sometimes("operator-repeats")
        raise GatewayUnavailable("no gateway answered")
