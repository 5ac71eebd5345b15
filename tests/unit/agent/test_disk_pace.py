"""Where writes are made: on the spot if the disk is quick, else in threads."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.agent.files import Disk
from holdfast.agent.journal import HostJournal
from holdfast.agent.link import LocalHost
from holdfast.agent.pace import QUICK_SECONDS, SYNCS_KEPT, TRIES, SyncPace
from holdfast.clock import VirtualClock
from holdfast.core.fleet.agents.journal import AckedRecord, Record

SLOW = 50 * QUICK_SECONDS


class TimedDisk(Disk):
    """A disk whose syncs take a set time."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.sync_seconds = 0.0
        self.threads: list[bool] = []
        """Of each write of the journal, whether it was in a thread."""

    def step(self, name: str, do: Callable[[], Any]) -> Any:
        if name == "write journal":
            self.threads.append(threading.current_thread() is not threading.main_thread())
        if name == "sync journal":
            self.clock.pause(self.sync_seconds)
        return do()


async def journal_on(disk: TimedDisk, folder: Path) -> HostJournal:
    journal = HostJournal(LocalHost(disk, disk.clock), folder, "j-1")
    await journal.load()
    return journal


async def append(journal: HostJournal, times: int, *, sync: bool = True) -> None:
    record: Record = AckedRecord()
    for _ in range(times):
        await journal.append(1, record, sync=sync)


async def test_writes_to_a_quick_disk_are_made_on_the_spot(tmp_path: Path) -> None:
    disk = TimedDisk(VirtualClock())
    await append(await journal_on(disk, tmp_path), 3 * SYNCS_KEPT)
    assert not any(disk.threads)


async def test_a_slow_disk_does_not_hold_the_event_loop_up(tmp_path: Path) -> None:
    disk = TimedDisk(VirtualClock())
    disk.sync_seconds = SLOW
    journal = await journal_on(disk, tmp_path)
    await append(journal, SYNCS_KEPT)
    disk.threads.clear()
    await append(journal, TRIES)
    assert disk.threads.count(False) == 1, "one try"
    await append(journal, 1, sync=False)
    assert disk.threads[-1], "it may wait for the syncs of others"


async def test_a_disk_that_has_become_quick_is_found_out(tmp_path: Path) -> None:
    disk = TimedDisk(VirtualClock())
    disk.sync_seconds = SLOW
    journal = await journal_on(disk, tmp_path)
    await append(journal, SYNCS_KEPT)
    disk.sync_seconds = 0.0
    await append(journal, TRIES * SYNCS_KEPT)
    assert not disk.threads[-1]


async def test_a_quick_disk_is_found_out_whatever_is_written_beside_the_syncs(
    tmp_path: Path,
) -> None:
    disk = TimedDisk(VirtualClock())
    disk.sync_seconds = SLOW
    journal = await journal_on(disk, tmp_path)
    await append(journal, SYNCS_KEPT)
    disk.sync_seconds = 0.0
    for _ in range(TRIES * SYNCS_KEPT):
        await append(journal, 1)
        await append(journal, 1, sync=False)
    assert not disk.threads[-1]


async def test_writes_without_a_sync_say_nothing_about_the_disk(tmp_path: Path) -> None:
    disk = TimedDisk(VirtualClock())
    disk.sync_seconds = SLOW
    journal = await journal_on(disk, tmp_path)
    for _ in range(SYNCS_KEPT):
        await append(journal, 1)
        await append(journal, 3, sync=False)
    assert disk.threads[-1]


def test_a_few_slow_syncs_change_nothing() -> None:
    pace = SyncPace()
    for slow in [False, False, True, False, True, True, False, True, False] * 5:
        pace.took(SLOW if slow else 0.0)
        assert pace.is_quick
