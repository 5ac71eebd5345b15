"""The checks of `holdfast doctor` on a store, one function each.

Promises: a check never changes the store. Its answer says what was observed and, if it is bad, what to
do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from holdfast.core.fleet.model import FLEET_TYPE
from holdfast.core.length import length
from holdfast.core.node import definitions, difference
from holdfast.core.plural import noun_for
from holdfast.core.schedule import CODE, SILENT_SECONDS
from holdfast.core.task import EXTERNAL, Status
from holdfast.engine.execute import ABANDONED_MAX
from holdfast.queue.check import NAMED_MAX, Check, Level
from holdfast.queue.nodes import Node
from holdfast.queue.queue import Queue
from holdfast.queue.worker_checks import serving, unhandled
from holdfast.store.sql import load_migrations

CLOCK_WARN_SECONDS: Final = 1.0
SHOWN_SECONDS_MIN: Final = 0.001
"""A shorter time is no number in a finding: two clocks agree, an answer takes less than this."""
SLOW_SECONDS: Final = 0.5
LATE_SECONDS: Final = 60.0
SYNCHRONOUS: Final = {"2": "FULL", "3": "EXTRA"}
"""The names of the values of this setting of SQLite, which answers with numbers."""
WEAK: Final = ("off", "local", "remote_write", "0", "1")
"""Settings with these values do not sync acknowledged writes."""


def answer_time(seconds: float) -> str:
    return (
        f"less than {length(SHOWN_SECONDS_MIN)}" if seconds < SHOWN_SECONDS_MIN else length(seconds)
    )


Look = Callable[[Queue, float], Awaitable[Check]]


async def store(queue: Queue, _: float) -> Check:
    """The store is reachable and answers quickly."""
    resources = await queue.open()
    begun = resources.clock.monotonic()
    await resources.store.feed.head()
    took = resources.clock.monotonic() - begun
    if took > SLOW_SECONDS:
        return Check("store", Level.WARN, f"reachable, but an answer took {length(took)}")
    return Check("store", Level.OK, f"reachable, answers in {answer_time(took)}")


async def schema(queue: Queue, _: float) -> Check:
    """The schema version. Opening refuses any other version."""
    backend = "sqlite" if (await queue.open()).store.one_writer else "postgres"
    migrations = load_migrations(f"holdfast.store.{backend}")
    newest = max(migration.number for migration in migrations)
    return Check("schema", Level.OK, f"version {newest}, as this version of Holdfast expects")


async def durability(queue: Queue, _: float) -> Check:
    """The server settings that an acknowledged write needs to survive a power loss."""
    settings = await (await queue.open()).store.reads.durability()
    off = [name for name, value in settings.items() if value in WEAK]
    if off:
        text = (
            f"{', '.join(off)} is off: a power loss may take acknowledged writes or damage the database; "
            "turn it on in postgresql.conf"
        )
        return Check("durability", Level.WARN, text)
    return Check(
        "durability",
        Level.OK,
        ", ".join(f"{name} is {SYNCHRONOUS.get(value, value)}" for name, value in settings.items()),
    )


async def hints(queue: Queue, _: float) -> Check:
    """Whether hints between processes are pushed."""
    mode = (await queue.open()).bus.mode()
    if mode.pushing:
        return Check("hints", Level.OK, f"pushing: {mode.why}")
    return Check("hints", Level.WARN, f"polling: {mode.why}; tasks start later than they could")


async def nodes(queue: Queue, _: float) -> Check:
    """A live worker for queued tasks. Those that nodes claim by id, and executions of hosts, need none."""
    every = await queue.get_nodes(live=False)
    live = [node for node in every if node.is_live and node.types]
    stats = await queue.get_stats()
    others = (stats.by_type.get(name, {}) for name in (EXTERNAL, FLEET_TYPE))
    queued = stats.queued - sum(counts.get(Status.QUEUED.value, 0) for counts in others)
    if live and (idle := await _unserved(queue, live)):
        return idle
    if live:
        workers = sum(node.workers for node in live)
        now = await queue.parts.sessions.now()
        silent = [
            f"{node.id} (last heard of {length(now - node.seen_at)} ago)"
            for node in every
            if not node.is_live
        ]
        text = f"{len(live)} live with {workers} workers"
        if silent:
            text += f"; silent: {', '.join(silent[:NAMED_MAX])}"
        return Check("nodes", Level.OK, text)
    if queued:
        waiting = "1 task waits" if queued == 1 else f"{queued} tasks wait"
        text = f"{waiting} and no worker is live: start one (holdfast worker MODULE:QUEUE)"
        return Check("nodes", Level.FAIL, text)
    return Check("nodes", Level.WARN, "no worker is live: start one (holdfast worker MODULE:QUEUE)")


async def handlers(queue: Queue, _: float) -> Check:
    """Handlers that ignore their cancellation block workers; unexpected errors of an engine are in its
    log."""
    problems = [
        f"{node.id} {', '.join(found)}"
        for node in await queue.get_nodes()
        if (found := _ails(node))
    ]
    if not problems:
        return Check("handlers", Level.OK, "none ignores its cancellation; no unexpected errors")
    rest = len(problems) - NAMED_MAX
    text = "; ".join(problems[:NAMED_MAX]) + (
        f"; and {_count(rest, 'more node')}" if rest > 0 else ""
    )
    return Check("handlers", Level.WARN, f"{text}: see the log of the node")


def _ails(node: Node) -> list[str]:
    """Problems that a node reports about itself."""
    found = []
    if node.deaf_handlers:
        text = "whose handler ignores its cancellation"
        found.append(f"has {_count(node.deaf_handlers, 'worker')} {text}")
    if node.abandoned_threads:
        text = f"has {_count(node.abandoned_threads, 'thread')} that still run after their attempts ended"
        full = node.abandoned_threads >= ABANDONED_MAX
        found.append(
            text + (", and starts no thread handlers until one of them returns" if full else "")
        )
    if node.blocked is not None:
        found.append(f"is alive, but {node.blocked}; no other task of it runs")
    if node.blocks:
        text = "event loop was blocked by a handler"
        found.append(f"whose {text} {_count(node.blocks, 'time')} since it started")
    if node.troubles:
        found.append(f"had {_count(node.troubles, 'unexpected error')} since it started")
    return found


def _count(number: int, noun: str) -> str:
    return f"{number} {noun_for(number, noun)}"


async def _unserved(queue: Queue, live: list[Node]) -> Check | None:
    """Queues with tasks whose workers are all out of service."""
    out = {
        view.name: [node for node in live if view.name in node.queues]
        for view in await queue.get_queues()
        if view.counts.get(Status.QUEUED.value, 0)
    }
    out = {
        name: nodes
        for name, nodes in out.items()
        if nodes and not any(node.may_claim for node in nodes)
    }
    if not out:
        return None
    nodes = {node.id: node.state for found in out.values() for node in found}
    names = ", ".join(f"{node} ({state})" for node, state in list(nodes.items())[:NAMED_MAX])
    queues = ", ".join(f"'{name}'" for name in list(out)[:NAMED_MAX])
    text = f"all workers of queue {queues} are out of service: {names}; see holdfast node uncordon"
    return Check("nodes", Level.FAIL, text)


async def types(queue: Queue, _: float) -> Check:
    """Types with one name and different options: in two services, or in two versions of one service."""
    first: dict[str, tuple[str, dict[str, object]]] = {}
    problems: dict[str, str] = {}
    for node in await queue.get_nodes():
        said = {"types": node.types, "type_options": node.type_options}
        for name, options in definitions(said).items():
            before, usual = first.setdefault(name, (node.id, options))
            found = difference(usual, options)
            if found and name not in problems:
                problems[name] = f"'{name}' is defined by {before} and {node.id} with {found}"
    if not problems:
        return Check("types", Level.OK, "all live nodes define each type with the same options")
    rest = len(problems) - NAMED_MAX
    text = "; ".join(list(problems.values())[:NAMED_MAX])
    text += f"; and {_count(rest, 'more type')}" if rest > 0 else ""
    advice = "rename one of the two, or finish the roll-out of the new version"
    return Check("types", Level.WARN, f"{text}: {advice}")


async def waiting(queue: Queue, max_wait: float) -> Check:
    """The task that has been due for the longest time."""
    resources = await queue.open()
    oldest: tuple[float, str] | None = None
    for view in await queue.get_queues():
        if view.name == EXTERNAL:
            continue
        due_at = (await resources.store.backlog.first_due([view.name])).due_at
        if not view.is_paused and due_at is not None:
            age = resources.store.now() - due_at
            oldest = max(oldest, (age, view.name)) if oldest else (age, view.name)
    if oldest is None or oldest[0] <= 0:
        return Check("waiting", Level.OK, "no due task is waiting")
    age, name = oldest
    text = f"the oldest task in queue '{name}' has been due for {length(age)}"
    if age > max_wait:
        text += f", more than {length(max_wait)}: add workers, or see holdfast task why"
        return Check("waiting", Level.FAIL, text)
    return Check("waiting", Level.OK, text)


async def projects(queue: Queue, _: float) -> Check:
    """Projects with tasks that no live worker may take."""
    nodes = [node for node in await queue.get_nodes() if node.types]
    if not nodes:
        return Check("projects", Level.OK, "no worker is live")
    if any(node.project is None and node.projects is None for node in nodes):
        return Check("projects", Level.OK, "the workers serve all projects")
    counts = await (await queue.open()).store.reads.waiting_projects(without=EXTERNAL)
    unserved = [
        f"'{name}' ({_count(n, 'task')} {'waits' if n == 1 else 'wait'})"
        for name, n in counts
        if not any(node.serves(name) for node in nodes)
    ]
    if not unserved:
        return Check("projects", Level.OK, "every project with waiting tasks has a worker")
    names = ", ".join(unserved[:NAMED_MAX])
    text = f"no live worker serves project {names}: start one of the project"
    return Check("projects", Level.WARN, text)


async def dead(queue: Queue, _: float) -> Check:
    """Dead letters need an operator."""
    count = (await queue.get_stats()).dead_letter_count
    if count:
        return Check(
            "dead letters", Level.WARN, f"{_count(count, 'task')} gave up: see holdfast dlq groups"
        )
    return Check("dead letters", Level.OK, "none")


async def paused(queue: Queue, _: float) -> Check:
    """A forgotten pause looks like an outage."""
    found = [
        f"'{view.name}' by {view.paused_by} ({view.counts.get(Status.QUEUED.value, 0)} wait)"
        for view in await queue.get_queues()
        if view.is_paused
    ]
    if found:
        return Check("pauses", Level.WARN, f"paused: {', '.join(found)}; see holdfast queue resume")
    return Check("pauses", Level.OK, "no queue is paused")


async def schedules(queue: Queue, _: float) -> Check:
    """Schedules that do not fire, and why."""
    found = await queue.get_schedules()
    now = (await queue.open()).store.now()
    problems = {
        name: f"'{name}' cannot be fired by {node.id}: {why}"
        for node in await queue.get_nodes()
        for name, why in node.skipped.items()
    }
    for each in found:
        if each.paused:
            problems[each.name] = f"'{each.name}' is paused: see holdfast schedule resume"
        elif each.owner == CODE and now - (each.announced_at or 0.0) > SILENT_SECONDS:
            problems[each.name] = f"'{each.name}' is defined by code that no live node runs"
        elif now - each.next_at > LATE_SECONDS and each.name not in problems:
            problems[each.name] = f"'{each.name}' has been due for {length(now - each.next_at)}"
    if found and not await queue.get_nodes():
        problems[""] = f"no node is live, so none of {len(found)} fires"
    if problems:
        return Check(
            "schedules", Level.WARN, "; ".join(text for _, text in sorted(problems.items()))
        )
    return Check("schedules", Level.OK, f"{len(found)} fire on time" if found else "none")


async def clock(queue: Queue, _: float) -> Check:
    """The store's clock decides about leases; a large difference makes logs hard to read."""
    resources = await queue.open()
    gap = resources.clock.now() - resources.store.now()
    if abs(gap) < SHOWN_SECONDS_MIN:
        return Check("clock", Level.OK, "this machine and the store agree")
    text = f"this machine is {length(abs(gap))} {'ahead of' if gap > 0 else 'behind'} the store"
    if abs(gap) > CLOCK_WARN_SECONDS:
        return Check(
            "clock", Level.WARN, f"{text}: synchronise the clocks (leases are not affected)"
        )
    return Check("clock", Level.OK, text)


ALL: Final[tuple[Look, ...]] = (
    store,
    schema,
    durability,
    hints,
    nodes,
    handlers,
    types,
    unhandled,
    serving,
    projects,
    waiting,
    dead,
    paused,
    schedules,
    clock,
)


async def check_all(queue: Queue, max_wait: float) -> list[Check]:
    """The results of all checks. `max_wait`: how many seconds a due task may wait."""
    return [await look(queue, max_wait) for look in ALL]
