"""Sessions of drivers that reach a host from afar: the newest one counts."""

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.executor import HostExecutor
from holdfast.agent.link import LocalHost
from holdfast.agent.ports import Work
from holdfast.agent.session import Session, SessionEnded
from holdfast.core.fleet.agents.journal import ProcessEvidence


def test_a_newer_session_ends_an_older_one(tmp_path: Path) -> None:
    first = Session(str(tmp_path), "a")
    with first.held():
        pass
    second = Session(str(tmp_path), "bb")
    with pytest.raises(SessionEnded), first.held():
        pass
    with second.held():
        pass


async def take_over(host: LocalHost, folder: Path, id: str) -> None:
    lines: Any = await host._connected()
    await lines.ask({"do": "session", "folder": str(folder), "id": id})


async def test_a_session_that_was_replaced_starts_nothing(tmp_path: Path) -> None:
    """Its connection is still open; it was cut off from the server only."""
    old, new = LocalHost(), LocalHost()
    try:
        await take_over(old, tmp_path, "a")
        executor = HostExecutor(old, tmp_path)
        ended = asyncio.Event()
        executor.watch(ended.set)
        process = await executor.prepare(Work(run="1", argv=("touch", str(tmp_path / "mark"))))
        await take_over(new, tmp_path, "b")
        await executor.release("1")
        lines: Any = await old._connected()
        with pytest.raises(OSError, match="another session has taken over") as refused:
            await lines.ask({"do": "keep_text", "args": [str(tmp_path / "x"), "text"]})
        assert refused.value.errno == errno.ESTALE
        await ended.wait()
        after = HostExecutor(new, tmp_path)
        sight = await after.look("1", process)
        assert sight.evidence is ProcessEvidence.EXITED
        assert sight.exit is not None
        assert sight.exit.state == "never_started"
        assert not (tmp_path / "mark").exists()
        assert not (tmp_path / "x").exists()
    finally:
        await old.close()
        await new.close()
