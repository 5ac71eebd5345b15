"""The checks of `holdfast doctor` on what workers serve: types without handlers, workers without work.

Promises: a check never changes the store. It looks at counts by type, not at tasks.
"""

from __future__ import annotations

from holdfast.core.fleet.model import FLEET_TYPE
from holdfast.core.task import EXTERNAL, Status
from holdfast.queue.check import NAMED_MAX, Check, Level
from holdfast.queue.nodes import Node
from holdfast.queue.queue import Queue


async def unhandled(queue: Queue, _: float) -> Check:
    """Types that tasks wait for and no live worker has a handler for."""
    name = "task types"
    live = [node for node in await queue.get_nodes() if node.types]
    if not live:
        return Check(name, Level.OK, "no worker is live")
    known = {type for node in live for type in node.types}
    waiting = {
        type: counts.get(Status.QUEUED.value, 0)
        for type, counts in (await queue.get_stats()).by_type.items()
        if type not in (EXTERNAL, FLEET_TYPE)
    }
    missing = {type: n for type, n in waiting.items() if n and type not in known}
    if not missing:
        return Check(name, Level.OK, "every type with queued tasks has a live worker")
    shown = ", ".join(f"'{type}' ({n} queued)" for type, n in sorted(missing.items())[:NAMED_MAX])
    rest = len(missing) - NAMED_MAX
    text = shown + (f", and {rest} more" if rest > 0 else "")
    advice = "start a worker of the code that defines it, or abort its tasks"
    return Check(name, Level.FAIL, f"no live worker has a handler for {text}: {advice}")


async def serving(queue: Queue, _: float) -> Check:
    """Workers that serve no queue in which their own types are: they never get a task."""
    name = "queues of workers"
    rows = await (await queue.open()).store.reads.types()
    queues = {row.name: row.queue for row in rows}
    idle = [node for node in await queue.get_nodes() if _is_idle(node, queues)]
    if not idle:
        return Check(name, Level.OK, "every live worker serves a queue of its types")
    shown = "; ".join(_described(node, queues) for node in idle[:NAMED_MAX])
    return Check(name, Level.WARN, f"{shown}: see --queues of holdfast worker")


def _is_idle(node: Node, queues: dict[str, str]) -> bool:
    own = {queues[type] for type in node.types if type in queues}
    return bool(own) and not own & set(node.queues)


def _described(node: Node, queues: dict[str, str]) -> str:
    own = sorted({queues[type] for type in node.types if type in queues})
    served = ", ".join(f"'{name}'" for name in node.queues) or "no queue"
    return f"{node.id} serves {served}, and its types are in {', '.join(own)}"
