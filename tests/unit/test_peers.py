"""Datagrams between the processes of one file, and the bus that uses them."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.bus import file as file_bus
from holdfast.bus.file import FileBus
from holdfast.bus.peers import SUFFIX, Peers
from holdfast.bus.port import FEED, WORK
from holdfast.clock import SystemClock

monotonic = SystemClock().monotonic


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "work.db"
    found.touch(mode=0o600)
    return found


@pytest.fixture
def pair(file: Path) -> Iterator[tuple[Peers, Peers]]:
    found = Peers(file, "one", monotonic), Peers(file, "two", monotonic)
    for each in found:
        each.open()
    yield found
    for each in found:
        each.close()


def test_a_message_reaches_the_others_and_not_its_sender(pair: tuple[Peers, Peers]) -> None:
    one, two = pair
    one.send("work")
    assert (one.receive(), two.receive()) == ([], ["work"])


def test_a_peer_that_comes_later_is_found(pair: tuple[Peers, Peers], file: Path) -> None:
    one, two = pair
    one.send("work")
    late = Peers(file, "late", monotonic)
    late.open()
    found: list[str] = []
    while not found:
        one.send("feed")
        found = late.receive()
    assert found == ["feed"]
    assert set(two.receive()) == {"work", "feed"}
    late.close()


def test_a_peer_that_does_not_read_blocks_no_other(pair: tuple[Peers, Peers]) -> None:
    one, two = pair
    for _ in range(10_000):
        one.send("work")
    assert two.receive()[0] == "work"


def test_the_socket_of_a_killed_process_is_removed(pair: tuple[Peers, Peers], file: Path) -> None:
    killed = f"""
import os, pathlib, time
from holdfast.bus.peers import Peers
Peers(pathlib.Path({str(file)!r}), "killed", time.monotonic).open()
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", killed], check=False)
    folder = file.with_name(file.name + SUFFIX)
    assert (folder / "killed.sock").exists()
    pair[0].send("work")
    assert not (folder / "killed.sock").exists()
    assert pair[1].receive() == ["work"]


def test_only_users_who_may_write_the_file_may_send(pair: tuple[Peers, Peers], file: Path) -> None:
    folder = file.with_name(file.name + SUFFIX)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "one.sock").stat().st_mode) == 0o600


def test_a_shared_file_has_a_shared_folder(tmp_path: Path) -> None:
    file = tmp_path / "shared.db"
    file.touch()
    file.chmod(0o660)
    peers = Peers(file, "one", monotonic)
    peers.open()
    assert stat.S_IMODE(file.with_name(file.name + SUFFIX).stat().st_mode) == 0o770
    peers.close()


def test_a_path_that_is_too_long_for_a_socket_works(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    file = folder / "work.db"
    file.touch()
    one, two = Peers(file, "one", monotonic), Peers(file, "two", monotonic)
    one.open()
    two.open()
    one.send("work")
    assert two.receive() == ["work"]
    one.close()
    two.close()


def test_nothing_but_sockets_is_removed(pair: tuple[Peers, Peers], file: Path) -> None:
    folder = file.with_name(file.name + SUFFIX)
    kept = [folder / "thesis.txt", folder / "thesis.sock", folder / "link.sock"]
    kept[0].write_text("years of work")
    kept[1].write_text("more of it")
    kept[2].symlink_to(kept[0])
    for _ in range(3):
        pair[0].send("work")
    assert all(each.exists() for each in kept)


def test_a_link_in_place_of_the_folder_is_not_followed(file: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    file.with_name(file.name + SUFFIX).symlink_to(elsewhere)
    with pytest.raises(OSError, match="hints"):
        Peers(file, "one", monotonic).open()
    assert list(elsewhere.iterdir()) == []


def test_a_folder_of_another_user_is_not_used(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.with_name(file.name + SUFFIX).mkdir()
    us = os.geteuid()
    monkeypatch.setattr(os, "fstat", lambda fd: Owned(Path(f"/proc/self/fd/{fd}").stat(), us + 1))
    with pytest.raises(PermissionError, match="another user"):
        Peers(file, "one", monotonic).open()


class Owned:
    """The state of a folder that another user made."""

    def __init__(self, state: os.stat_result, uid: int) -> None:
        self.st_uid, self.st_gid, self.st_mode = uid, state.st_gid, state.st_mode


class Listening:
    """Messages of a bus, and a way to wait for them."""

    def __init__(self, bus: FileBus) -> None:
        self.hints: list[str] = []
        self._came = asyncio.Event()
        bus.subscribe(self._hear)

    def _hear(self, hint: str) -> None:
        self.hints.append(hint)
        self._came.set()

    async def until(self, *hints: str) -> None:
        async with asyncio.timeout(10):
            while not set(hints) <= set(self.hints):
                self._came.clear()
                await self._came.wait()


@asynccontextmanager
async def running(file: Path, name: str, version: list[int]) -> AsyncIterator[FileBus]:
    bus = FileBus(lambda: version[0], Peers(file, name, monotonic), SystemClock())
    await bus.start()
    try:
        yield bus
    finally:
        await bus.stop()


async def test_a_hint_reaches_another_process_without_a_poll(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_bus, "NET_SECONDS", 1e6)
    version = [1]
    async with running(file, "one", version) as one, running(file, "two", version) as two:
        heard = Listening(two)
        one.committed(one.notify_in_tx(WORK, one=True))
        await heard.until("work one")
        one.touched()
        await heard.until("work one", FEED)


@pytest.mark.parametrize("topic", [WORK, FEED])
async def test_a_stop_sends_the_hints_that_are_left(
    file: Path, monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    monkeypatch.setattr(file_bus, "NET_SECONDS", 1e6)
    version = [1]
    async with running(file, "one", version) as stays:
        heard = Listening(stays)
        await heard.until(WORK, FEED)  # its own first look at the file
        async with running(file, "two", version) as ends:
            ends.publish(topic)
            await heard.until(topic)
            heard.hints.clear()
            ends.publish(topic)  # Waits for its interval.
        await heard.until(topic)


async def test_the_watch_announces_a_change_to_a_process_that_started_later(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is alone does nothing for others after a commit."""
    monkeypatch.setattr(file_bus, "NET_SECONDS", 0.001)
    version = [1]
    async with running(file, "one", version) as one:
        one.touched()
        assert not one._timers
        async with running(file, "two", version) as two:
            heard = Listening(two)
            await heard.until(WORK, FEED)  # its own first look at the file
            heard.hints.clear()
            one.touched()
            await heard.until(FEED)


async def test_a_message_of_a_process_that_started_makes_it_known(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_bus, "NET_SECONDS", 1e6)
    version = [1]
    async with running(file, "one", version) as one:
        heard = Listening(one)
        async with running(file, "two", version) as two:
            replies = Listening(two)
            await heard.until(WORK, FEED)
            await replies.until(WORK, FEED)
            heard.hints.clear()
            two.publish(WORK)
            await heard.until(WORK)
            replies.hints.clear()
            one.touched()
            await replies.until(FEED)


async def test_a_burst_is_few_datagrams_and_none_is_forgotten(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_bus, "NET_SECONDS", 1e6)
    version = [1]
    async with running(file, "one", version) as one, running(file, "two", version) as two:
        heard = Listening(two)
        for _ in range(1_000):
            one.committed(one.notify_in_tx(WORK, one=True))
        await heard.until(WORK)
        assert len(heard.hints) < 500


async def test_without_datagrams_the_version_is_watched(file: Path) -> None:
    file.with_name(file.name + SUFFIX).write_text("in the way")
    version = [1]
    async with running(file, "one", version) as bus:
        heard = Listening(bus)
        await heard.until(WORK, FEED)
        heard.hints.clear()
        version[0] = 2
        await heard.until(WORK, FEED)
        assert bus.mode().pushing
        assert "datagrams" not in bus.mode().why


async def test_a_folder_that_was_removed_comes_back(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_bus, "NET_SECONDS", 0.001)
    version = [1]
    folder = file.with_name(file.name + SUFFIX)
    async with running(file, "one", version), running(file, "two", version):
        for each in folder.iterdir():
            each.unlink()
        folder.rmdir()
        async with asyncio.timeout(10):
            while not folder.exists() or len(list(folder.iterdir())) < 2:  # noqa: ASYNC110 - a folder sets no event
                await asyncio.sleep(0)


async def test_an_unreadable_version_is_reported_and_recovers(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(file_bus, "NET_SECONDS", 0.001)
    monkeypatch.setattr(file_bus, "AGAIN_SECONDS", 0.001)
    fails = False

    def version() -> int:
        if fails:
            raise OSError("the disk is gone")
        return 1

    bus = FileBus(version, Peers(file, "one", monotonic), SystemClock())
    await bus.start()
    heard = Listening(bus)
    await heard.until(WORK)
    async with asyncio.timeout(10):
        fails = True
        while bus.mode().pushing:  # noqa: ASYNC110 - nothing sets an event
            await asyncio.sleep(0)
        assert "the disk is gone" in bus.mode().why
        heard.hints.clear()
        fails = False
        await heard.until(WORK, FEED)
    assert bus.mode().pushing
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    await bus.stop()
