"""What an adapter is: a :class:`Subject`, and :func:`main` that lets the harness drive it.

The harness starts ``python -m <adapter>`` in the adapter's own environment and speaks JSON lines
with it: ``{"op": "drain", "n": 1000, ...}`` in, ``{"ok": {...}}`` or ``{"error": "..."}`` out.
The same module started with the argument ``worker`` is one worker process.

An adapter has a producer side (:meth:`Subject.open`, operations ``op_<name>``) and a worker side
(:meth:`Subject.work`).
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Options:
    """Settings that the harness gives an adapter."""

    url: str = ""
    """``postgresql://`` (empty database), ``redis://`` (flushed), ``sqlite:////`` (no file yet)."""
    concurrency: int = 0
    """Tasks that one worker process may run at once; 0: the adapter's own choice for speed."""
    scenario: str = ""
    """Operation that is measured, for a peer that needs another setting there (crash recovery)."""
    variant: dict[str, Any] = field(default_factory=dict)
    """Free settings from the registry."""

    @property
    def path(self) -> str:
        """File of a ``sqlite:////…`` address."""
        return self.url.removeprefix("sqlite:///")

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


class Subject:
    """A product under test. Methods may be plain or ``async``; override those that it supports."""

    module = ""
    """Importable name of the adapter, set by :func:`main`."""

    def __init__(self, options: Options) -> None:
        """Keep ``options``. Do not connect yet."""
        self.options = options

    def install(self) -> Any:
        """Make the schema; called once, on an empty store, before :meth:`open`."""

    def open(self) -> Any:
        """Connect the producer."""

    def close(self) -> Any:
        """Disconnect the producer."""

    def unfinished(self) -> Any:
        """Count tasks that the store does not yet hold as finished."""
        raise NotImplementedError

    def work(self) -> None:
        """Be a worker process: run tasks until killed. ``options.concurrency`` counts here."""
        raise NotImplementedError

    def operation(self, name: str) -> Callable[..., Any]:
        """What the harness may call: a method ``op_<name>``."""
        method: Callable[..., Any] = getattr(self, f"op_{name}")
        return method


def probe_folder() -> Path:
    """Folder of the current measurement, in which handlers of all processes write their records."""
    return Path(os.environ["BENCH_PROBE"])


async def settle(value: Any) -> Any:
    """Await ``value`` if it can be awaited: methods of a subject may be plain or ``async``."""
    return await value if inspect.isawaitable(value) else value


def run_async(main: Coroutine[Any, Any, Any]) -> Any:
    """``asyncio.run``, on uvloop where it is installed: the same loop for every async subject."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def main(cls: type[Subject]) -> None:
    """Entry point of an adapter: ``if __name__ == "__main__": main(MyQueue)``."""
    options = Options(**json.loads(os.environ["BENCH_OPTIONS"]))
    main_spec = sys.modules["__main__"].__spec__
    cls.module = main_spec.name if main_spec else ""
    if sys.argv[1:] == ["worker"]:
        subject = cls(options)
        _answer_stream().write("ready\n")
        if sys.stdin.readline() == "go\n":
            subject.work()
    else:
        run_async(_serve(cls(options)))


def _answer_stream() -> Any:
    """Keep the real stdout for answers; whatever a library prints goes to stderr."""
    stream = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return stream


async def _serve(subject: Subject) -> None:
    answers = _answer_stream()
    loop = asyncio.get_running_loop()
    try:
        await settle(subject.install())
        await settle(subject.open())
        answers.write(json.dumps({"ok": {}}) + "\n")
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            request = json.loads(line)
            answers.write(json.dumps(await _answer(subject, request)) + "\n")
        await settle(subject.close())
    except Exception:
        traceback.print_exc()
        answers.write(json.dumps({"error": traceback.format_exc(limit=-3)}) + "\n")
        raise


async def _answer(subject: Subject, request: dict[str, Any]) -> dict[str, Any]:
    try:
        operation = subject.operation(request.pop("op"))
        return {"ok": await settle(operation(**request))}
    except Exception:
        traceback.print_exc()
        return {"error": traceback.format_exc(limit=-3)}
