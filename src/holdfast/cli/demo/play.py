"""The plot of the demo: enqueue, work, kill, recover, repair, replay.

Promises: every step waits for what it needs to see, never for a time; facts for the proof are gathered
on the way.
"""

from __future__ import annotations

import os
import signal
from typing import Final

import msgspec

from holdfast.app import TaskQueue
from holdfast.cli.demo import tasks
from holdfast.cli.demo.crew import PROCESSES, Crew, pid_of
from holdfast.cli.demo.plan import Plan
from holdfast.cli.demo.screen import Screen
from holdfast.cli.demo.tally import Tally
from holdfast.core.task import Status
from holdfast.queue.nodes import Node

KILL_SHARE: Final = 0.3
HELD_MIN: Final = 4
"""The worker that is killed must hold at least so many tasks."""
REPLAY_RATE: Final = 20.0


class Killed(msgspec.Struct):
    """The worker that was killed, and what the store said that it held right afterwards."""

    node: str
    pid: int
    at: float
    left: list[str]
    new_pid: int = 0
    back_after: float = 0.0


class Story(msgspec.Struct):
    """What happened, for the summary and the proof."""

    killed: Killed
    dead: int = 0
    groups: int = 0
    replayed: int = 0
    edited: int = 0
    seconds: float = 0.0
    crew_code: int | None = None


async def play(queue: TaskQueue, plan: Plan, tally: Tally, crew: Crew, screen: Screen) -> Story:
    """From the first enqueue to the last graceful stop."""
    backend = await queue.open()
    begun = backend.clock.monotonic()
    await queue.enqueue_many(plan.requests)
    screen.note(f"enqueued {len(plan.ids)} tasks in one transaction")
    await crew.start()
    await crew.until_up(PROCESSES)
    screen.note(f"{PROCESSES} worker processes are up, {tasks.WORKERS_MAX} tasks at once in each")
    await tally.until(lambda: tally.completed() >= KILL_SHARE * len(plan.ids))
    story = Story(await _kill(queue, crew, tally, screen))
    await tally.until(tally.all_ended)
    (crew.folder / tasks.REPAIRED).touch()
    await _repair(queue, plan, story, screen)
    repaired = await queue.position()
    await tally.until(lambda: tally.has_seen(repaired) and tally.all_ended())
    screen.note("everything has ended; asking the workers to stop (SIGTERM)")
    await crew.stop()
    story.crew_code = crew.code
    story.seconds = backend.clock.monotonic() - begun
    return story


async def _kill(queue: TaskQueue, crew: Crew, tally: Tally, screen: Screen) -> Killed:
    """Kills the process that holds the most, and sees it replaced."""
    backend = await queue.open()
    victim = await _busiest(queue, crew, tally)
    os.kill(pid_of(victim), signal.SIGKILL)
    at = backend.store.now()
    left = (await _held(queue)).get(victim.id, [])
    killed = Killed(victim.id, pid_of(victim), at, left)
    screen.note(f"killed worker {killed.pid} with SIGKILL while it held {len(left)} tasks")
    nodes = await crew.until_up(PROCESSES, without=victim.id)
    killed.new_pid = pid_of(nodes[-1])
    killed.back_after = backend.store.now() - at
    screen.note(f"its parent started another one, {killed.new_pid}")
    return killed


async def _busiest(queue: TaskQueue, crew: Crew, tally: Tally) -> Node:
    """The worker with the most running tasks, once it has enough of them."""
    while True:
        held = await _held(queue)
        nodes = await crew.nodes()
        best = max(nodes, key=lambda node: len(held.get(node.id, ())))
        if len(held.get(best.id, ())) >= HELD_MIN:
            return best
        await tally.change()


async def _held(queue: TaskQueue) -> dict[str, list[str]]:
    """What runs, by node."""
    found: dict[str, list[str]] = {}
    for task in await queue.find_tasks(status=Status.RUNNING, queue=tasks.NAME, limit=1000):
        found.setdefault(str(task.node), []).append(task.id)
    return found


async def _repair(queue: TaskQueue, plan: Plan, story: Story, screen: Screen) -> None:
    """Looks at the dead letters, repairs what caused them, replays."""
    groups = await queue.get_dead_groups()
    ours = set(plan.ids)
    story.dead = len([t for t in await queue.get_dead_tasks(limit=1000) if t.id in ours])
    story.groups = len([group for group in groups if group.sample_id in ours])
    screen.note(
        f"{story.dead} dead letters of {story.groups} causes; the partner is back, replaying"
    )
    story.replayed = await queue.replay_dead(
        type="demo.import", queue=tasks.NAME, rate=REPLAY_RATE, actor="demo"
    )
    for number, task_id in enumerate(plan.to_edit):
        payload = {"n": number, "amount": 12}
        await queue.replay_dead_task(task_id, payload=payload, actor="demo")
        story.edited += 1
    screen.note(
        f"replayed {story.replayed} by filter (their dependents wait again) and {story.edited} with "
        "a corrected payload"
    )
