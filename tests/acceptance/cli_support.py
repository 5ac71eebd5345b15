"""Runs the real command line in separate processes, with an application for it."""

import io
import json
import logging
import os
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

from holdfast import TaskQueue
from holdfast.cli.main import main
from tests import launcher

APP = """
import asyncio, os
from holdfast import TaskQueue

queue = TaskQueue(os.environ["HOLDFAST_URL"], lease_seconds=2, shutdown_timeout=20)

@queue.task(priority="high")
async def add(a: int, b: int) -> int:
    return a + b

@queue.task(max_attempts=1)
async def boom(n: int = 0) -> None:
    raise ValueError(f"boom {n}")

@queue.task(queue="slow")
async def hold() -> None:
    await asyncio.Event().wait()

@queue.task
async def where(n: int = 0) -> int:
    await asyncio.sleep(0.05)
    return os.getpid()
"""
HOLDFAST = (sys.executable, "-m", "holdfast")
LEFT_OUT = ("HOLDFAST_URL", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "HOLDFAST_DEBUG")


class Cli:
    """`holdfast` in its own folder."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.folder = folder
        self.env = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
        if url is not None:
            self.env["HOLDFAST_URL"] = url

    def run(self, *args: str, input: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        return launcher.run(args, self.folder, {**self.env, **env}, input, timeout=100)

    def ok(self, *args: str, input: str = "", **env: str) -> str:
        """The output of a command that must succeed."""
        done = self.run(*args, input=input, **env)
        assert done.returncode == 0, f"{args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout.rstrip("\n")

    def json(self, *args: str, input: str = "") -> Any:
        return json.loads(self.ok(*args, "-o", "json", input=input))

    def see(self, *args: str) -> Any:
        """The same in this process, to read the effects of another command."""
        url = ("--url", self.env["HOLDFAST_URL"]) if "HOLDFAST_URL" in self.env else ()
        done = run_inside(self.folder, *args, *url, "-o", "json")
        assert done.code == 0, f"{args}: {done}"
        return json.loads(done.out)

    def fails(self, code: int, *args: str, input: str = "", **env: str) -> str:
        """The stderr of a command that must fail."""
        done = self.run(*args, input=input, **env)
        assert done.returncode == code, f"{args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stderr.rstrip("\n")

    def worker(self, *args: str, app: str = APP) -> "Worker":
        (self.folder / "shop.py").write_text(app)
        return Worker(self, ["worker", "shop:queue", *args])


class Worker:
    """A `holdfast worker` that is up; killed at the end if it still is."""

    def __init__(self, cli: Cli, args: list[str]) -> None:
        self._process = subprocess.Popen(
            [*HOLDFAST, *args], cwd=cli.folder, env=cli.env, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stderr is not None
        self._stderr: IO[str] = self._process.stderr
        self.said: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._stderr.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def until(self, *words: str) -> str:
        """Waits for the next line of the log that has all these words."""
        for line in self._stderr:
            self.said.append(line)
            if all(word in line for word in words):
                return line
        raise AssertionError(f"it ended without {words}:\n{''.join(self.said)}")

    def ready(self, count: int = 1) -> set[int]:
        """The pids of this many processes, once they are up."""
        lines = [self.until("ready: pid") for _ in range(count)]
        return {int(line.split("ready: pid ")[1].split(",")[0]) for line in lines}

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ends(self) -> int:
        """The exit code, once it has ended."""
        self.said += self._stderr.readlines()
        return self._process.wait(timeout=60)


class Stock:
    """The tasks that `stocked` has enqueued."""

    def __init__(self, url: str, done: str, dead: list[str], later: str, child: str) -> None:
        self.url = url
        self.done = done
        """A completed `add` of 1 and 2."""
        self.dead = dead
        """Three dead letters of `boom`."""
        self.later = later
        """An `add` that is due in an hour."""
        self.child = child
        """Waits for it."""


async def stocked(url: str) -> Stock:
    """A store with a task in each of the usual states, and no worker."""
    queue = TaskQueue(url)

    async def add(a: Any = 0, b: Any = 0, **others: Any) -> Any:
        return a + b

    async def boom(n: int) -> None:
        raise ValueError(f"boom {n}")

    queue.task(priority="high")(add)
    queue.task(max_attempts=1)(boom)
    async with queue:
        done = await queue.enqueue("add", {"a": 1, "b": 2})
        dead = [await queue.enqueue("boom", {"n": n}) for n in range(3)]
        for handle in (done, *dead):
            await handle.wait(30)
        later = await queue.enqueue("add", {"a": 3, "b": 4}, delay=3600)
        child = await queue.enqueue("add", {"a": 5, "b": 6}, depends_on=[later])
    return Stock(url, done.id, [handle.id for handle in dead], later.id, child.id)


class Done(NamedTuple):
    """The result of a command."""

    code: int
    out: str
    said: str


def run_inside(folder: Path, *args: str, out: io.StringIO | None = None) -> Done:
    """The same in this process, for the many small refusals. `out` is its standard output."""
    log = logging.getLogger("holdfast")
    before, level = Path.cwd(), log.level
    out, said = io.StringIO() if out is None else out, io.StringIO()
    os.chdir(folder)
    try:
        with redirect_stderr(said), redirect_stdout(out):
            code = main(args)
    finally:
        os.chdir(before)
        log.setLevel(level)
    return Done(code, out.getvalue(), said.getvalue())
