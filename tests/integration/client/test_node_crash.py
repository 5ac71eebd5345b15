"""An offline node that is killed at any moment: what it acknowledged is not lost, and nothing is sent under
another id."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.client.blocking import BlockingClient
from holdfast.client.node.journal import Journal
from holdfast.client.node.node import Node
from tests.integration.gateway.support import ADMIN

PROGRAM = """
import asyncio, sys
from holdfast.client.node.node import Node

async def work(folder, gateway, token, first):
    node = await Node.open(folder, gateway=gateway, project="default", join_token=token, node_id="n")
    if node.get("t") is None:
        node.create("t", payload=0)
    n = first
    while True:
        mutation_id = node.edit("t", metadata={f"k{n}": n})
        print(n, mutation_id, flush=True)
        n += 1
        if n % 2 == 0:
            await node.sync()
            print("synced", n, flush=True)

asyncio.run(work(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
"""


WRITER = """
import asyncio, sys
from holdfast.client.node.node import Node

async def work(folder, gateway, token, first):
    node = await Node.open(folder, gateway=gateway, project="default", join_token=token, node_id="w")
    if node.get("written") is None:
        node.create("written")
    await node.sync()
    claim = await node.claim("written")
    n = first
    while True:
        await claim.output(f"{n}\\n")
        print(n, flush=True)
        n += 1
        await asyncio.sleep(0)

asyncio.run(work(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
"""


def killed_after(lines: int, *arguments: str, program: str = PROGRAM) -> Iterator[str]:
    """Runs the program and kills it after this number of lines."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process:
        for _ in range(lines):
            line = process.stdout.readline()
            assert line, "the program ended by itself"
            yield line
        process.kill()
        yield from process.stdout


async def test_a_killed_node_loses_nothing_that_it_acknowledged(
    gateway: str, tmp_path: Path
) -> None:
    with BlockingClient(gateway, ADMIN) as client:
        join = client.tokens.create_join(uses=10).token
        assert join is not None
        folder, acknowledged = tmp_path / ".holdfast", set[int]()
        for lines in (1, 4, 3, 6, 2, 5):
            first = max(acknowledged, default=-1) + 1
            for line in killed_after(lines, str(folder), gateway, join, str(first)):
                number = line.split()[0]
                if number != "synced":
                    acknowledged.add(int(number))
        node = await Node.open(folder, gateway=gateway, join_token=join)
        await node.sync()
        task = node.get("t")
        assert task is not None
        assert node.conflicts() == []
        assert {int(key[1:]) for key in task.metadata} >= acknowledged
        [row] = list(client.tasks())
        assert client.get(row.id).metadata.keys() >= task.metadata.keys()
        # Each version is one mutation: a repeat under another id would have made one more.
        assert task.version <= len(task.metadata) + 1
        await node.close()


async def test_a_killed_node_goes_on_with_its_claim_and_its_output(
    gateway: str, tmp_path: Path
) -> None:
    with BlockingClient(gateway, ADMIN) as client:
        join = client.tokens.create_join(uses=10).token
        assert join is not None
        folder, acknowledged = tmp_path / ".holdfast", list[int]()
        for lines in (1, 60, 3, 200):
            first = str(max(acknowledged, default=-1) + 1)
            shown = killed_after(lines, str(folder), gateway, join, first, program=WRITER)
            acknowledged += [int(line) for line in shown if line.endswith("\n")]
        async with await Node.open(folder, gateway=gateway, join_token=join) as node:
            claim = await node.claim("written")
            await claim.complete()
            assert (claim.fence, node.conflicts()) == (1, [])
        stored = b"".join(chunk.data for chunk in client.output("written")).split()
        written = [int(number) for number in stored]
        # One that was on the disk when the process was killed, and not acknowledged, is there twice.
        assert written == sorted(written)
        assert set(written) == set(range(max(written) + 1)) >= set(acknowledged)
        assert len(written) - len(set(written)) <= 3


def test_the_log_is_on_the_disk_before_the_call_returns(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "node.db")
    [(mode,)] = journal._db.execute("PRAGMA synchronous")
    assert mode == 2, "FULL"
    journal.append("m1", "t", 0, None, {"payload": 1})
    # Another connection cannot open it: the folder belongs to one process.
    with pytest.raises(Exception, match="one node at a time"):
        Journal(tmp_path / "node.db")
    journal.close()
    assert [mutation.mutation_id for mutation in Journal(tmp_path / "node.db").log()] == ["m1"]
