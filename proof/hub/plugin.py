"""An offline node as a process: ``python -m proof.hub.plugin OPTIONS.json``.

It changes tasks without a connection, syncs at times that are drawn, and may be killed at any moment. Each
change is in its journal before the call is made and again, with the mutation, after it returned: a change
that returned must reach the server or be refused.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path

import msgspec

from holdfast.client import Node
from holdfast.client.node.node import LocalTask
from holdfast.errors import HoldfastError
from proof.hub.plan import PROJECT

SHARED = 6
"""Tasks that all nodes write."""


class Options(msgspec.Struct, frozen=True):
    """The orders of one node."""

    name: str
    folder: str
    ports: tuple[int, ...]
    token: str
    seed: str


class Made(msgspec.Struct, frozen=True):
    """A change that returned."""

    task_id: str
    mutation_id: str
    label: str


def made(path: Path) -> list[Made]:
    """The changes of a node, in order."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [msgspec.json.decode(line, type=Made) for line in lines]


async def open_node(options: Options) -> Node:
    urls = [f"http://127.0.0.1:{port}" for port in options.ports]
    return await Node.open(
        Path(options.folder) / options.name,
        gateway=urls,
        project=PROJECT,
        join_token=options.token,
    )


class Author:
    """Makes changes that are drawn."""

    def __init__(self, node: Node, options: Options, log: int, start: int) -> None:
        self.node = node
        self.options = options
        self.rng = random.Random(f"{options.seed} {start}")
        self.log = log
        self.count = 0

    def change(self) -> None:
        self.count += 1
        label = f"{self.options.name}-{os.getpid()}-{self.count}"
        known = [task for task in self.node.tasks() if task.status == "queued"]
        task_id = self._name()
        if self.rng.random() < 0.3 and self.node.get(task_id) is None:
            mutation = self.node.create(task_id, payload={"by": label}, labels=[label])
        elif known:
            task_id, mutation = self._edit(self.rng.choice(known), label)
        else:
            return
        line = json.dumps({"task_id": task_id, "mutation_id": mutation, "label": label})
        os.write(self.log, f"{line}\n".encode())

    def _name(self) -> str:
        if self.rng.random() < 0.5:
            return f"shared-{self.rng.randrange(SHARED)}"
        return f"{self.options.name}-{os.getpid()}-{self.count}"

    def _edit(self, task: LocalTask, label: str) -> tuple[str, str]:
        payload = {"by": label} if self.rng.random() < 0.5 else msgspec.UNSET
        metadata = {self.rng.choice("abc"): label}
        return task.id, self.node.edit(
            task.id, payload=payload, metadata=metadata, add_labels=[label]
        )


async def run(options: Options) -> None:
    path = Path(options.folder) / f"{options.name}.made"
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    async with await open_node(options) as node:
        author = Author(node, options, log, len(made(path)))
        while True:
            for _ in range(author.rng.randint(1, 4)):
                author.change()
            await asyncio.sleep(author.rng.uniform(0.05, 0.6))
            if author.rng.random() < 0.6:
                try:
                    await node.sync()
                except HoldfastError as error:
                    sys.stderr.write(f"sync: {type(error).__name__}: {error}\n")


if __name__ == "__main__":
    asyncio.run(run(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Options)))
