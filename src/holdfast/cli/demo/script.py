"""The steps of the demo: enqueue, run, kill a worker, recover, repair, replay, stop.

Promises: the workers are real processes, started as a user would start them; each step waits for a
condition, not for a time; workers and store are closed on every way out; the demo ends within
`SECONDS_MAX`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from pathlib import Path
from typing import Final, TextIO

from holdfast.app import TaskQueue
from holdfast.cli.demo import tasks
from holdfast.cli.demo.checks import CheckReport, KilledWorker, ScriptResult, check_claims
from holdfast.cli.demo.display import Display, make_display
from holdfast.cli.demo.progress import FeedProgress
from holdfast.cli.demo.tasks import Plan, queue
from holdfast.cli.worker.signals import PARENT_VARIABLE
from holdfast.core.task import Status
from holdfast.errors import HoldfastError
from holdfast.queue.nodes import Node

PROCESSES: Final = 3
POLL_SECONDS: Final = 0.1
END_SECONDS: Final = 10.0
SECONDS_MAX: Final = 55.0
LOG_NAME: Final = "workers.log"
KILL_SHARE: Final = 0.3
"""Share of completed tasks after which a worker is killed."""
HELD_MIN: Final = 4
"""Tasks that the killed worker must hold at least."""
REPLAY_RATE: Final = 20.0


class DemoFailed(HoldfastError):
    """The demo could not run to its end."""


class Demo:
    """One run: queue, workers, progress and display."""

    result: ScriptResult
    report: CheckReport

    def __init__(self, name: str, folder: Path, stream: TextIO) -> None:
        self.name = name
        self._stream = stream
        self.plan = tasks.make_plan(name)
        self.progress = FeedProgress(self.plan.ids)
        self.workers = Workers(queue, name, folder)

    async def run(self) -> Demo:
        """Runs the script, then checks its claims."""
        try:
            resources = await queue.open()
            started_at = resources.clock.monotonic()
            with make_display(
                self._stream, lambda: resources.clock.monotonic() - started_at
            ) as display:
                self.result = await self._run_script(display)
            self.report = await check_claims(queue, self.plan, self.progress, self.result)
        finally:
            await self.workers.end()
            await queue.stop()
        return self

    async def _run_script(self, display: Display) -> ScriptResult:
        """Runs the script while other tasks follow the feed and update the display."""
        start = await queue.position()
        try:
            async with asyncio.TaskGroup() as group:
                background = [
                    group.create_task(self.progress.follow(queue, start)),
                    group.create_task(display.watch(self.progress)),
                ]
                async with asyncio.timeout(SECONDS_MAX):
                    result = await run_script(
                        queue, self.plan, self.progress, self.workers, display
                    )
                for task in background:
                    task.cancel()
        except BaseExceptionGroup as errors:
            error = errors.exceptions[0]
            if isinstance(error, TimeoutError):
                message = f"the demo did not end within {SECONDS_MAX:g} s: see {self.workers.log}"
                raise DemoFailed(message) from None
            raise error from None
        return result


class Workers:
    """`holdfast worker --processes N`: one parent process and its children."""

    def __init__(self, queue: TaskQueue, name: str, folder: Path) -> None:
        self._queue = queue
        self._name = name
        self._pipe = -1
        self._process: Process | None = None
        self.folder = folder
        self.log = folder / LOG_NAME
        self.exit_code: int | None = None

    async def start(self) -> None:
        """Starts the parent. The workers stop when this process ends, however it ends: the pipe closes."""
        child_end, self._pipe = os.pipe()
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "holdfast",
                "worker",
                "holdfast.cli.demo.tasks:queue",
                f"--processes={PROCESSES}",
                pass_fds=(child_end,),
                env={**os.environ, PARENT_VARIABLE: str(child_end)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        os.close(child_end)

    async def nodes(self) -> list[Node]:
        """The workers that are up, oldest first."""
        nodes = [node for node in await self._queue.get_nodes() if self._name in node.queues]
        return sorted(nodes, key=lambda node: node.started_at)

    async def wait_until_up(self, count: int, *, without: str = "") -> list[Node]:
        """Waits until `count` workers are up; the node `without` does not count."""
        while True:
            self._check_running()
            nodes = [node for node in await self.nodes() if node.id != without]
            if len(nodes) >= count:
                return nodes
            await asyncio.sleep(POLL_SECONDS)

    async def stop(self) -> None:
        """Asks for a graceful stop and waits for it."""
        if self._process is not None:
            self._signal(signal.SIGTERM)
            self.exit_code = await self._process.wait()

    async def end(self) -> None:
        """Stops the workers that are still up, without waiting for their tasks."""
        if self._process is not None and self._process.returncode is None:
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(END_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                self._signal(signal.SIGKILL)
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    def _check_running(self) -> None:
        if self._process is not None and self._process.returncode is not None:
            raise DemoFailed(f"the workers ended early; see {self.log}")


def pid_of(node: Node) -> int:
    """The pid in a node's id, which is host:pid:incarnation."""
    return int(node.id.split(":")[-2])


async def run_script(
    queue: TaskQueue, plan: Plan, progress: FeedProgress, workers: Workers, display: Display
) -> ScriptResult:
    """All steps, from the enqueue to the graceful stop."""
    resources = await queue.open()
    started_at = resources.clock.monotonic()
    await queue.enqueue_many(plan.requests)
    display.note(f"enqueued {len(plan.ids)} tasks in one transaction")
    await workers.start()
    await workers.wait_until_up(PROCESSES)
    display.note(f"{PROCESSES} worker processes are up, {tasks.WORKERS_MAX} tasks at once in each")
    await progress.wait_until(lambda: progress.completed() >= KILL_SHARE * len(plan.ids))
    result = ScriptResult(await _kill(queue, workers, progress, display))
    await progress.wait_until(progress.all_ended)
    (workers.folder / tasks.REPAIRED).touch()
    await _repair(queue, plan, result, display)
    repaired = await queue.position()
    await progress.wait_until(lambda: progress.has_reached(repaired) and progress.all_ended())
    display.note("all tasks have ended; asking the workers to stop (SIGTERM)")
    await workers.stop()
    result.exit_code = workers.exit_code
    result.seconds = resources.clock.monotonic() - started_at
    return result


async def _kill(
    queue: TaskQueue, workers: Workers, progress: FeedProgress, display: Display
) -> KilledWorker:
    """Kills the process that holds the most tasks and waits for its replacement."""
    resources = await queue.open()
    victim = await _busiest(queue, workers, progress)
    os.kill(pid_of(victim), signal.SIGKILL)
    at = resources.store.now()
    left = (await _running_by_node(queue)).get(victim.id, [])
    killed = KilledWorker(victim.id, pid_of(victim), at, left)
    display.note(f"killed worker {killed.pid} with SIGKILL while it held {len(left)} tasks")
    nodes = await workers.wait_until_up(PROCESSES, without=victim.id)
    killed.new_pid = pid_of(nodes[-1])
    killed.back_after = resources.store.now() - at
    display.note(f"its parent started another one, {killed.new_pid}")
    return killed


async def _busiest(queue: TaskQueue, workers: Workers, progress: FeedProgress) -> Node:
    """The worker with the most running tasks, once it has at least `HELD_MIN`."""
    while True:
        running = await _running_by_node(queue)
        nodes = await workers.nodes()
        busiest = max(nodes, key=lambda node: len(running.get(node.id, ())))
        if len(running.get(busiest.id, ())) >= HELD_MIN:
            return busiest
        await progress.wait_for_event()


async def _running_by_node(queue: TaskQueue) -> dict[str, list[str]]:
    """The ids of running tasks, by node."""
    ids: dict[str, list[str]] = {}
    for task in await queue.find_tasks(status=Status.RUNNING, queue=tasks.NAME, limit=1000):
        ids.setdefault(str(task.node), []).append(task.id)
    return ids


async def _repair(queue: TaskQueue, plan: Plan, result: ScriptResult, display: Display) -> None:
    """Counts the dead letters and replays them: by filter, and one by one with another payload."""
    groups = await queue.get_dead_groups()
    plan_ids = set(plan.ids)
    dead = await queue.get_dead_tasks(limit=1000)
    result.dead = len([task for task in dead if task.id in plan_ids])
    result.groups = len([group for group in groups if group.sample_id in plan_ids])
    display.note(
        f"{result.dead} dead letters of {result.groups} causes; the partner is back, replaying"
    )
    result.replayed = await queue.replay_dead(
        type="demo.import", queue=tasks.NAME, rate=REPLAY_RATE, actor="demo"
    )
    for number, task_id in enumerate(plan.to_edit):
        payload = {"n": number, "amount": 12}
        await queue.replay_dead_task(task_id, payload=payload, actor="demo")
        result.edited += 1
    display.note(
        f"replayed {result.replayed} by filter (their dependents wait again) and {result.edited} with "
        "a corrected payload"
    )
