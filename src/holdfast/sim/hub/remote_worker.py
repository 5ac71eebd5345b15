"""A worker without a database as a simulated process: the remote engine over any gateway."""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

from holdfast.core.ids import Ids
from holdfast.core.task import Task
from holdfast.engine.context import Context
from holdfast.errors import HoldfastError
from holdfast.queue.define import Definitions
from holdfast.queue.queue import Queue
from holdfast.queue.settings import Settings
from holdfast.remote.gateways import Gateways
from holdfast.remote.parts import RemoteParts
from holdfast.remote.wires import Wires
from holdfast.sim.checkers.hub import NOTE, report_value
from holdfast.sim.draw import Draw
from holdfast.sim.handler_outcomes import RULES, STALLING, TYPES, HandlerOutcomes
from holdfast.sim.hub.client_sockets import Dialer, Wireless
from holdfast.sim.hub.gateway import ADMIN_TOKEN
from holdfast.sim.hub.links import urls_of
from holdfast.sim.hub.sockets import Sockets
from holdfast.sim.hub_history import HubHistory, Reported
from holdfast.sim.node import Node

AGAIN_SECONDS: Final = 1.0
REPORTS: Final = 3


class RemoteWorker:
    """The main of a remote worker's node."""

    def __init__(
        self, sockets: Sockets, history: HubHistory, draw: Draw, settings: Settings
    ) -> None:
        self._sockets = sockets
        self._history = history
        self._draw = draw
        self._settings = settings

    async def main(self, node: Node, _: Queue) -> None:
        """Runs tasks until the process dies."""
        draw = self._draw.stream(node.life)
        queue = self._queue(node, draw)
        handlers = HandlerOutcomes(node, node.cluster.record, draw.stream("temper"))
        for name in (*TYPES, STALLING):
            rules: dict[str, Any] = RULES.get(name, {})
            queue.register_handler(name, self._reporting(handlers._run), **rules)
        while not queue.is_running():
            try:
                await queue.start()
            except HoldfastError:
                await node.clock.sleep(AGAIN_SECONDS)
        raise await queue.wait_failed()

    def _queue(self, node: Node, draw: Draw) -> Queue:
        gateways = Gateways(urls_of(node, draw), ADMIN_TOKEN)
        wires = Wires(
            open_channel=Dialer(self._sockets, node).channel,
            transport=Wireless(self._sockets, node),
            host=node.life,
        )

        def parts(definitions: Definitions) -> Any:
            ids = Ids(draw.stream("ids"))
            return RemoteParts(gateways, node.clock, ids, self._settings, definitions, wires=wires)

        return Queue(cast("Any", parts))

    def _reporting(self, run: Any) -> Any:
        async def handler(task: Task, ctx: Context) -> object:
            """Reports several times at once, with values that no other report has."""
            await asyncio.gather(*(report(task, ctx, n) for n in range(REPORTS)))
            value = await run(task, ctx)
            await report(task, ctx, REPORTS)
            return value

        async def report(task: Task, ctx: Context, n: int) -> None:
            value = report_value(task.fence, n)
            await ctx.progress(value, NOTE)
            self._history.reported.append(Reported(task.id, task.fence, value))

        return handler
