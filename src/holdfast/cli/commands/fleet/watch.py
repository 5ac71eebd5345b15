"""Follows a job until it has ended, and prints how it ended.

Promises: news come through the feed of events, which resumes after a lost connection; without news the job is
read each `QUIET_SECONDS`. Ctrl-C leaves the job alone and says how to come back.
Never: reads the job more often than its display shows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Final

from holdfast.app import TaskQueue
from holdfast.cli.api import calls_of, v1
from holdfast.cli.asking import offer_vote
from holdfast.cli.commands.fleet.failures import failure_lines
from holdfast.cli.commands.fleet.folded import errors_of, has_text, print_groups
from holdfast.cli.commands.fleet.job_ref import job_ref, read_job
from holdfast.cli.commands.fleet.job_view import (
    budget_of,
    command_of,
    counts_of,
    done_of,
    exit_code,
    halt_of,
    has_ended,
    kinds_of,
)
from holdfast.cli.commands.fleet.progress import (
    Display,
    QuietDisplay,
    Snapshot,
    make_display,
)
from holdfast.cli.exits import Exit
from holdfast.cli.follow import Patience
from holdfast.cli.keyboard import is_interactive
from holdfast.cli.options import Common, Progress
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Item
from holdfast.cli.session import advice, remark, with_queue
from holdfast.cli.use_cases import UseCases
from holdfast.client.calls import Calls
from holdfast.core.check import check_choice
from holdfast.core.event import Position
from holdfast.core.fleet.model import JobStatus
from holdfast.core.output import StreamName
from holdfast.core.text import one_line
from holdfast.errors import Conflict, FeedReset, WaitTimeout

QUIET_SECONDS: Final = 5.0
OUTPUT_SECONDS: Final = 2.0
"""Outputs are read at most so often while a job runs."""
BAD_MAX: Final = 1_000
"""Failed hosts that are read; equal failures are one line."""
FAILURES_MAX: Final = 10
GROUPS_READ: Final = 20
GROUPS_MAX: Final = 5
LINES_MAX: Final = 10
BAD: Final = ("FAILED", "TIMEOUT")
Until = Callable[[Item], bool]


def watch_job(
    common: Common,
    text: str,
    *,
    progress: Progress = Progress.AUTO,
    patience: Patience,
    project: str | None = None,
) -> int:
    """Follows the job that the text names. The exit code says how it ended."""
    follower = Follower(text, project)
    display = make_display(progress, common)
    try:
        if Printer(common).is_table and progress is not Progress.QUIET and is_interactive():
            with_queue(common, lambda queue: _offer_vote(queue, text, project, patience.seconds))
        last = with_queue(common, lambda queue: _bounded(follower, queue, display, patience))
    except KeyboardInterrupt:
        job_id = follower.job_id
        remark(
            f"job {job_id} goes on: holdfast watch {job_id}; end it: holdfast job abort {job_id}"
        )
        return Exit.INTERRUPTED
    if progress is not Progress.JSON and progress is not Progress.QUIET:
        print_end(Printer(common), last)
    return exit_code(last.job)


async def _offer_vote(
    queue: TaskQueue, text: str, project: str | None, timeout: float | None
) -> None:
    """Lets the person at the terminal vote first, if the job waits for that."""
    calls = await calls_of(queue)
    job = await read_job(calls, await job_ref(calls, text, project), project)
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            await offer_vote(calls, job)


async def _bounded(
    follower: Follower, queue: TaskQueue, display: Display, patience: Patience
) -> Snapshot:
    with display:
        return await follower.follow(queue, display, has_ended, patience)


class Follower:
    """Follows one job."""

    def __init__(self, text: str, project: str | None) -> None:
        self.job_id = text
        self._project = project

    async def follow(
        self, queue: TaskQueue, display: Display, until: Until, patience: Patience
    ) -> Snapshot:
        """The job when it has ended, or is as `until` says, with its outputs. WaitTimeout after the time."""
        calls = await calls_of(queue)
        start = await queue.parts.feed.position()
        self.job_id = await job_ref(calls, self.job_id, self._project)
        with advice(lambda: f"job {self.job_id} goes on: holdfast watch {self.job_id}"):
            try:
                return await patience.bound(
                    self._follow(
                        queue.parts, calls, start, display=display, until=until, patience=patience
                    )
                )
            except WaitTimeout:
                raise WaitTimeout(
                    f"job {self.job_id} has not ended within {patience.seconds:g} s: "
                    f"holdfast watch {self.job_id}"
                ) from None

    async def _follow(
        self,
        parts: UseCases,
        calls: Calls,
        start: Position,
        *,
        display: Display,
        until: Until,
        patience: Patience,
    ) -> Snapshot:
        outputs = _Outputs(calls, self._project)
        async with _news(parts, start) as news:
            while True:
                job = await read_job(calls, self.job_id, self._project)
                self.job_id = job["id"]
                is_over = until(job) or has_ended(job)
                found = Snapshot(job)
                if is_over:
                    found = await outputs.read(job)
                elif display.wants_output:
                    found = await outputs.read_at_times(job)
                display.show(found)
                if is_over:
                    return found
                patience.begin()
                await asyncio.sleep(display.seconds)
                await news.wait(QUIET_SECONDS)


class _News:
    """Whether something has happened."""

    def __init__(self) -> None:
        self.stir = asyncio.Event()
        self.listener: asyncio.Task[None] | None = None

    async def wait(self, seconds: float) -> None:
        """Returns when something has happened since the last call, or after the time."""
        try:
            async with asyncio.timeout(seconds):
                await self.stir.wait()
        except TimeoutError:
            pass
        if self.listener is not None and self.listener.done():
            self.listener.result()
        self.stir.clear()


@asynccontextmanager
async def _news(parts: UseCases, start: Position) -> AsyncIterator[_News]:
    news = _News()

    async def listen() -> None:
        after = start
        while True:
            try:
                async with aclosing(parts.feed.events(after)) as coming:
                    async for event in coming:
                        after = event.position
                        news.stir.set()
            except FeedReset:
                after = await parts.feed.position()
                news.stir.set()

    def ended(_: asyncio.Task[None]) -> None:
        news.stir.set()

    news.listener = asyncio.create_task(listen(), name="holdfast-cli-news")
    news.listener.add_done_callback(ended)
    try:
        yield news
    finally:
        news.listener.cancel()
        await asyncio.wait([news.listener])


class _Outputs:
    """Outputs and bad hosts of a job, read again when more hosts have ended."""

    def __init__(self, calls: Calls, project: str | None) -> None:
        self._calls = calls
        self._query: dict[str, object] = {"project": project}
        self._at = float("-inf")
        self._done = 0
        self._kept = Snapshot({})

    async def read_at_times(self, job: Item) -> Snapshot:
        now = asyncio.get_running_loop().time()
        if done_of(job) != self._done and now - self._at >= OUTPUT_SECONDS:
            self._done, self._at = done_of(job), now
            self._kept = await self.read(job)
        return Snapshot(job, self._kept.bad, self._kept.folded, self._kept.errors)

    async def read(self, job: Item) -> Snapshot:
        query = self._query | {"limit": GROUPS_READ}
        folded = [
            await self._folded(job["id"], query | {"stream": stream}) for stream in StreamName
        ]
        bad: list[Item] = []
        for status in BAD:
            if job["counts"].get(status) and len(bad) < BAD_MAX:
                query = self._query | {"status": status, "limit": BAD_MAX - len(bad)}
                path = v1("jobs", job["id"], "executions")
                bad += (await self._calls.call("GET", path, query=query)).body["items"]
        return Snapshot(job, bad, folded[0], errors_of(folded[1]))

    async def _folded(self, job_id: str, query: dict[str, object]) -> Item:
        found: Item = (
            await self._calls.call("GET", v1("jobs", job_id, "output"), query=query)
        ).body
        return found


def print_end(printer: Printer, last: Snapshot) -> None:
    """How a job ended: bounded, whatever its size."""
    job = last.job
    lines = [
        (job["id"], job["status"]),
        ("command", command_of(job)),
        ("ended", f"{done_of(job)} of {job['hosts']}"),
        ("counts", counts_of(job)),
        ("kinds", kinds_of(job)),
        ("budget", budget_of(job)),
        ("halt", halt_of(job)),
        ("started", job["started_at"]),
        ("finished", job["finished_at"]),
    ]
    printer.one(job, lines, name=job["id"])
    if not printer.is_table:
        return
    failures = failure_lines(last.bad)
    for text in failures[:FAILURES_MAX]:
        print(printer.paint(one_line(text), "red"))
    count = sum(job["counts"].get(status, 0) for status in BAD)
    if len(failures) > FAILURES_MAX or count > len(last.bad):
        print(f"... and others, {count} in all: holdfast job executions {job['id']}")
    for folded in (last.folded, last.errors):
        if folded is not None and has_text(folded):
            print_groups(printer, folded, job["id"], groups=GROUPS_MAX, most=LINES_MAX)


# -- waiting -----------------------------------------------------------------------------------------


def wait_job(
    common: Common,
    text: str,
    wanted: frozenset[str] | None,
    *,
    patience: Patience,
    project: str | None = None,
) -> int:
    """Waits until a job has one of the statuses, or has ended. Exit code: how it ended; 6 if it ended as
    none of the statuses that were asked for, 7 after the time."""
    follower = Follower(text, project)

    def until(job: Item) -> bool:
        return wanted is not None and job["status"] in wanted

    last = with_queue(common, lambda queue: follower.follow(queue, QuietDisplay(), until, patience))
    print_end(Printer(common), last)
    if wanted is None:
        return exit_code(last.job)
    if last.job["status"] in wanted:
        return 0
    names = " or ".join(sorted(wanted))
    raise Conflict(
        f"job {last.job['id']} has ended as {last.job['status']} and does not become {names}"
    )


def job_statuses(names: tuple[str, ...]) -> frozenset[str]:
    """Names of statuses of jobs, in any case."""
    return frozenset(check_choice("status", name.upper(), JobStatus).value for name in names)
