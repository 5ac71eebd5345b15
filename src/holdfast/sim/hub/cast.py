"""Builds the gateways of a plan and their clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from holdfast.core.ids import Ids
from holdfast.queue.settings import Settings
from holdfast.sim.checkers.hub import unshown
from holdfast.sim.draw import Draw
from holdfast.sim.hub.gateway import GatewayProcess
from holdfast.sim.hub.offline import PROJECT, OfflineNode
from holdfast.sim.hub.operator import GatewayOperator
from holdfast.sim.hub.remote_worker import RemoteWorker
from holdfast.sim.hub.sockets import Sockets
from holdfast.sim.hub.watcher import Watcher
from holdfast.sim.hub_history import HubHistory, Ladder, State, Watched
from holdfast.sim.node import Cluster, Main, Node
from holdfast.sim.outcome import all_events
from holdfast.sim.swarm import Plan
from holdfast.store.sqlite.dialect import SqliteDialect
from holdfast.store.store import Store

Add = Callable[[str], Node]
CHANNELS: Final = ("project:default", "system:events", f"project:{PROJECT}")
SETTLE_SECONDS: Final = 600.0
"""How long clients may take to agree with the server after everything has come to rest."""
LOOK_SECONDS: Final = 10.0
TRUTH: Final = """
    SELECT s.client_id, t.version, t.status, t.payload_json FROM holdfast_sync_task s
    JOIN holdfast_task t ON t.id = s.task_id WHERE s.project = ?"""
PENDING: Final = "SELECT count(*) FROM holdfast_intervention WHERE ended_at IS NULL"


class HubCast:
    """The subsystem of gateways."""

    def __init__(
        self, plan: Plan, add: Add, history: HubHistory, settings: Settings, draw: Draw
    ) -> None:
        self.history = history
        self._add = add
        self._draw = draw.stream("judge")
        self._names = tuple(f"g{n}" for n in range(plan.gateways))
        nodes = [add(name) for name in self._names]
        self._cluster: Cluster = nodes[0].cluster
        self._sockets = sockets = Sockets(self._cluster, draw.stream("sockets"))
        self._folder: TemporaryDirectory[str] | None = None
        self._offline: list[OfflineNode] = []
        self._operators: list[GatewayOperator] = []
        for node in nodes:
            node.main = GatewayProcess(sockets, draw.stream(node.name)).main
            node.when_dead = partial(sockets.died, node)
        for n in range(plan.remote_workers):
            worker = RemoteWorker(sockets, history, draw.stream(f"r{n}"), settings)
            self._client(f"r{n}", worker.main)
        for n in range(plan.watchers):
            watched = Watched(f"v{n}", draw.stream(f"channel {n}").pick(CHANNELS))
            history.watched.append(watched)
            watcher = Watcher(sockets, history, draw.stream(watched.name), watched)
            self._client(watched.name, watcher.main)
        for n in range(plan.operators):
            operator = GatewayOperator(sockets, history, draw.stream(f"o{n}"))
            self._operators.append(operator)
            self._client(f"o{n}", operator.main)
        if plan.offline_nodes:
            self._folder = TemporaryDirectory(prefix="holdfast-sim-")
        for n in range(plan.offline_nodes):
            self._offline_node(f"n{n}", draw.stream(f"n{n}"))

    def _offline_node(self, name: str, draw: Draw) -> None:
        assert self._folder is not None
        folder = Path(self._folder.name) / name
        folder.mkdir()
        offline = OfflineNode(name, self._sockets, draw, folder)
        self._offline.append(offline)
        self._client(name, offline.main)

    def _client(self, name: str, main: Main) -> None:
        node = self._add(name)
        node.main = main
        node.peers = self._names
        node.hears = False
        node.when_dead = partial(self._sockets.died, node)

    def calm(self) -> None:
        for offline in self._offline:
            offline.is_calm = True
        for operator in self._operators:
            operator.is_calm = True

    def is_at_rest(self) -> bool:
        [(pending,)] = self._cluster.database.rows(PENDING)
        return int(pending) == 0

    async def report(self) -> None:
        """Waits until clients agree with the server, and records what they have."""
        database, history = self._cluster.database, self.history
        events = await all_events(Store(database.driver, SqliteDialect(), Ids(self._draw)))
        history.watched_through = events[-1].position.offset if events else 0
        end = self._cluster.loop.time() + SETTLE_SECONDS
        while True:
            history.truth = self._truth()
            history.replicas = [offline.replicas() for offline in self._offline]
            agree = all(r.states == history.truth and not r.pending for r in history.replicas)
            has_shown = not any(
                unshown(w, events, history.watched_through) for w in history.watched
            )
            if (agree and has_shown) or self._cluster.loop.time() > end:
                break
            await asyncio.sleep(LOOK_SECONDS)
        rows = database.rows("SELECT id, state, issued_at FROM holdfast_intervention ORDER BY id")
        history.ladders = [Ladder(*row) for row in rows]

    def _truth(self) -> dict[str, State]:
        rows = self._cluster.database.rows(TRUTH, PROJECT)
        return {name: (version, status, payload) for name, version, status, payload in rows}

    def end(self) -> None:
        for offline in self._offline:
            offline.end()
        if self._folder is not None:
            self._folder.cleanup()
