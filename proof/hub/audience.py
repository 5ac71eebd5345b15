"""A process with some of the watchers: ``python -m proof.hub.audience OPTIONS.json``.

Each watcher writes what it was shown to a file, one JSON line an item. The connections go through proxies in
this process, which reset some of them. When the file `final.json` appears, the process waits until each
watcher has reached its last event, writes its report, and waits to be ended.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TextIO

import msgspec

from holdfast.client import Client
from holdfast.client.watch import WatchItem
from holdfast.core.event import Position
from proof.hub.plan import ADMIN
from proof.hub.site import until
from proof.lab.proxy import Proxy

POLL_SECONDS = 0.05
QUIET_SECONDS = 1.0
"""Time in which a repeated event would show."""


class Watcher(msgspec.Struct, frozen=True):
    """One subscription."""

    name: str
    channel: str
    position: str | None = None
    """None: it starts with a snapshot."""
    kinds: tuple[str, ...] = ()
    after_seconds: float = 0.0
    """When it subscribes."""


class Options(msgspec.Struct, frozen=True):
    """The orders of one process."""

    name: str
    folder: str
    ports: tuple[int, ...]
    watchers: tuple[Watcher, ...]
    reconnects: int
    seconds: float
    seed: str


class Audience:
    """The watchers of this process."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.rng = random.Random(options.seed)
        self.offsets = dict.fromkeys((w.name for w in options.watchers), 0)
        self.connections = dict.fromkeys((w.name for w in options.watchers), 0)
        self.errors: dict[str, str] = {}
        self.resets = 0

    async def watch(self, watcher: Watcher, urls: Sequence[str], out: TextIO) -> None:
        await asyncio.sleep(watcher.after_seconds)
        try:
            async with Client(urls, ADMIN) as client:
                watch = client.watch(watcher.channel, watcher.position, kinds=watcher.kinds)
                async with watch:
                    async for item in watch:
                        self._note(watcher.name, item, out)
                        self.connections[watcher.name] = watch.connections
        except Exception as error:  # a watcher that ends is a finding of the run
            self.errors[watcher.name] = f"{type(error).__name__}: {error}"

    def _note(self, name: str, item: WatchItem, out: TextIO) -> None:
        data = item.frame
        position = data.get("position") or ""
        offset = Position.parse(position).offset if position else 0
        self.offsets[name] = max(self.offsets[name], offset)
        line = {
            "watcher": name,
            "type": item.type,
            "offset": offset,
            "kind": data.get("kind"),
            "task": (data.get("payload") or {}).get("task_id"),
            "merged": data.get("merged", 1),
            "last": data.get("last"),
        }
        out.write(json.dumps(line) + "\n")

    async def cut(self, proxies: Sequence[Proxy]) -> None:
        """Resets connections at times that are drawn."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        times = sorted(
            self.rng.uniform(0.5, self.options.seconds) for _ in range(self.options.reconnects)
        )
        for at in times:
            await asyncio.sleep(max(0.0, start + at - loop.time()))
            await until(lambda: self.rng.choice(proxies).reset_one(self.rng.random()))
            self.resets += 1

    async def settle(self, out: TextIO) -> None:
        """Waits for the last event of each watcher, and reports."""
        folder = Path(self.options.folder)
        await until((folder / "final.json").exists)
        last = json.loads((folder / "final.json").read_text())
        while any(self.offsets[name] < last[name] for name in self.offsets.keys() - self.errors):
            await asyncio.sleep(POLL_SECONDS)
            self._report(out, is_complete=False)
        await asyncio.sleep(QUIET_SECONDS)
        self._report(out, is_complete=True)

    def _report(self, out: TextIO, *, is_complete: bool) -> None:
        out.flush()
        report = {
            "complete": is_complete,
            "offsets": self.offsets,
            "connections": self.connections,
            "errors": self.errors,
            "resets": self.resets,
        }
        path = Path(self.options.folder) / f"{self.options.name}.report"
        part = path.with_suffix(".part")
        part.write_text(json.dumps(report))
        part.replace(path)


async def run(options: Options) -> None:
    audience = Audience(options)
    path = Path(options.folder) / f"{options.name}.seen"
    async with AsyncExitStack() as stack:
        out = stack.enter_context(path.open("w"))
        proxies = [await stack.enter_async_context(Proxy(port)) for port in options.ports]
        async with asyncio.TaskGroup() as group:
            for nth, watcher in enumerate(options.watchers):
                turned = [*proxies[nth % len(proxies) :], *proxies[: nth % len(proxies)]]
                urls = [f"http://127.0.0.1:{proxy.port}" for proxy in turned]
                group.create_task(audience.watch(watcher, urls, out))
            group.create_task(audience.cut(proxies))
            group.create_task(audience.settle(out))


if __name__ == "__main__":
    asyncio.run(run(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Options)))
