"""The start of an offline node: how it registers, and again when the server calls its start ended.

Promises: calls at the same time register once. A registration names the runs that the node goes on with, the
latest of each task. Those that the server has ended are lost to their claims. The credential is on the disk
before it is used. An internal module.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from holdfast.client.address import check_token
from holdfast.client.http import Http
from holdfast.client.node.identity import Identity, write_identity
from holdfast.client.node.journal import Journal
from holdfast.client.node.wire import register
from holdfast.core.errors import NodeFenced
from holdfast.core.exchange.offline import Fields
from holdfast.core.wire import time_text
from holdfast.errors import BadConfig, Conflict

HEARTBEAT_SECONDS: Final = 20.0
"""How often a node shows that it lives, unless the server says it."""
RETURNS_MAX: Final = 5
"""How often a process registers again because the server calls its start ended. A registration of an earlier
process comes late once; a copy of the folder that another process uses comes again and again."""
CLAIMS_MAX: Final = 500
"""Tasks that the node has claimed, or whose results wait to be sent: a start names all of them."""


class NodeStart:
    """The start of one process. `on_lost` is called with the task and the fence of a run that has ended."""

    def __init__(
        self,
        folder: Path,
        identity: Identity,
        journal: Journal,
        http: Http,
        join_token: str | None,
        *,
        gateway: str | None,
        on_lost: Callable[[str, int], None],
    ) -> None:
        self.identity = identity
        self.incarnation: int | None = None
        """The number of this start. None: not registered yet."""
        self.heartbeat_seconds = HEARTBEAT_SECONDS
        self.lost: list[Fields] = []
        """Runs that the server did not give back."""
        self._folder = folder
        self._journal = journal
        self._http = http
        self._join_token = None if join_token is None else check_token(join_token)
        self._gateway = gateway
        self._on_lost = on_lost
        self._boot_id = identity.boot_id or http.ids.secret()
        self._returns = 0
        self._lock = asyncio.Lock()

    async def begun(self) -> int:
        """The number of this start, after the server has given it one."""
        async with self._lock:
            if self.incarnation is None:
                self._check_alone()
                self.incarnation = await self._register()
            return self.incarnation

    def forget(self, incarnation: int) -> None:
        """The server knows a later start: one that came late of an earlier process, or another process with
        this identity. The node registers again."""
        if incarnation == self.incarnation:
            self.incarnation = None
            self._returns += 1

    def _check_alone(self) -> None:
        """Two that take turns would end each other's runs. The server finds out those that are quick."""
        if self._returns > RETURNS_MAX:
            raise NodeFenced(
                f"the start of node '{self.identity.node_id}' was ended {self._returns} times: another "
                "process uses a copy of its folder; give each node another folder, and start again"
            )

    async def _register(self) -> int:
        identity = self.identity
        if identity.credential is None:
            if self._join_token is None:
                raise BadConfig(
                    "the node is not registered: give a join token, which an administrator makes with "
                    "`holdfast node join-token`"
                )
            self._http.token = self._join_token
            if identity.boot_id is None:
                identity = msgspec.structs.replace(identity, boot_id=self._boot_id)
                write_identity(self._folder, identity)
        answer = await register(self._http, self._body(identity))
        self._keep(identity, answer)
        self.heartbeat_seconds = (
            answer.get("heartbeatIntervalMs", 1_000 * HEARTBEAT_SECONDS) / 1_000
        )
        self.lost = list(answer.get("lost", ()))
        for run in self.lost:
            self._on_lost(str(run["taskId"]), int(run["fence"]))
        return int(answer["incarnation"])

    def _body(self, identity: Identity) -> Fields:
        runs = self._journal.unended()[-CLAIMS_MAX:]
        return {
            "nodeId": identity.node_id,
            "nodeType": identity.node_type,
            "projectId": identity.project,
            "capabilities": identity.capabilities,
            "bootId": self._boot_id,
            "resume": [{"taskId": run.task_id, "fence": run.fence} for run in runs],
            "timestamp": round(self._http.clock.now() * 1000),
        }

    def _keep(self, identity: Identity, answer: Fields) -> None:
        credential = answer.get("credential") or identity.credential
        if credential is None:
            raise Conflict("the server gave no credential: choose another node id")
        registered = msgspec.structs.replace(identity, gateway=self._gateway or identity.gateway)
        if answer.get("credential"):
            at = time_text(self._http.clock.now())
            registered = msgspec.structs.replace(
                registered, credential=credential, registered_at=at, boot_id=None
            )
        if registered != identity:
            write_identity(self._folder, registered)
        self.identity = registered
        self._http.token = credential
