"""A node that works offline as a simulated process. Its journal is its disk and survives crashes.

A crash falls between two calls of the journal: each call is one transaction.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from holdfast.client.calls import path_of
from holdfast.client.node.identity import Identity, read_identity
from holdfast.client.node.journal import Journal
from holdfast.client.node.node import Node as OfflineClient
from holdfast.core import codec
from holdfast.errors import HoldfastError
from holdfast.queue.queue import Queue
from holdfast.sim.draw import Draw
from holdfast.sim.hub.links import http_of
from holdfast.sim.hub.sockets import Sockets
from holdfast.sim.hub_history import Replicas
from holdfast.sim.node import Node

PROJECT: Final = "field"
NAMES: Final = tuple(f"job-{n}" for n in range(8))
ACT_SECONDS: Final = 3.0
CALM_SECONDS: Final = 5.0
LEASE_SECONDS: Final = 15.0
TASK_ID: Final = "SELECT task_id FROM holdfast_sync_task WHERE project = ? AND client_id = ?"


class OfflineNode:
    """The main of an offline node."""

    def __init__(self, name: str, sockets: Sockets, draw: Draw, folder: Path) -> None:
        self.name = name
        self._sockets = sockets
        self._draw = draw
        self._folder = folder
        self._journal = Journal(":memory:")
        self._join_token: str | None = None
        self.is_calm = False

    async def main(self, node: Node, _: Queue) -> None:
        """Works until the process dies."""
        draw = self._draw.stream(node.life)
        identity = read_identity(self._folder) or Identity(
            node_id=self.name, project=PROJECT, capabilities=["execute", "sync", "fence"]
        )
        http = http_of(node, draw, self._sockets, identity.credential)
        await self._get_join_token(node, draw)
        client = OfflineClient(self._folder, identity, self._journal, http, self._join_token)
        while True:
            await node.clock.sleep(CALM_SECONDS if self.is_calm else draw.wait(ACT_SECONDS))
            try:
                await self._act(client, node, draw)
            except HoldfastError as error:
                if error.code in {"internal", "engine-failed"}:
                    raise
                node.cluster.trace.sometimes(f"offline {error.code}")

    async def _get_join_token(self, node: Node, draw: Draw) -> None:
        """An administrator hands the node a token, which it keeps."""
        admin = http_of(node, draw.stream("admin"), self._sockets)
        while self._join_token is None:
            try:
                path = path_of("join-tokens")
                answer = await admin.call("POST", path, {"project": PROJECT, "uses": 1})
                # A repeated request is answered without the secret.
                self._join_token = answer.body.get("token")
            except HoldfastError:
                await node.clock.sleep(1.0)

    async def _act(self, client: OfflineClient, node: Node, draw: Draw) -> None:
        verbs = ("create", "edit", "edit", "label", "end", "claim", "sync", "sync")
        verb, known = draw.pick(verbs), [task.id for task in client.tasks()]
        name = draw.pick(NAMES) if verb == "create" or not known else draw.pick(known)
        if self.is_calm or verb == "sync":
            report = await client.sync()
            if report.refused:
                node.cluster.trace.sometimes("offline-refused")
            if report.pushed:
                node.cluster.trace.sometimes("offline-pushed")
            return
        match verb:
            case "create":
                client.create(name, payload={"by": node.life, "n": draw.below(1000)})
            case "edit":
                client.edit(name, payload={"by": node.life, "n": draw.below(1000)})
            case "label":
                client.edit(
                    name,
                    metadata={draw.pick("xy"): draw.below(5)},
                    add_labels=[draw.pick("abc")],
                    remove_labels=[draw.pick("de")],
                )
            case "end":
                client.set_status(name, draw.pick(("completed", "failed", "aborted")))
            case "claim":
                await self._work(client, node, draw, name)

    async def _work(self, client: OfflineClient, node: Node, draw: Draw, name: str) -> None:
        """Claims a task, works on it, and ends it or lets it go."""
        async with await client.claim(name, LEASE_SECONDS) as claim:
            node.cluster.trace.sometimes("offline-claimed")
            for (task_id,) in node.cluster.database.rows(TASK_ID, PROJECT, name):
                node.cluster.record.ran(task_id, claim.fence, node.life)
            await node.clock.sleep(draw.wait(5.0))
            if draw.chance(0.7) and not claim.lost.is_set():
                client.set_status(name, "completed", result=draw.below(10))
                await client.sync()

    def replicas(self) -> Replicas:
        """What is on the disk."""
        states = {
            replica.id: (
                replica.version,
                str(replica.content.get("status")),
                codec.dumps(replica.content.get("payload")),
            )
            for replica in self._journal.replicas()
        }
        return Replicas(self.name, states, len(self._journal.log()))

    def end(self) -> None:
        self._journal.close()
