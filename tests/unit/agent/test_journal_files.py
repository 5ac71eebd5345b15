"""The journal on a disk: power failures, full disks, damage, forgetting."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from holdfast.agent.files import Disk
from holdfast.agent.journal import HostJournal
from holdfast.agent.link import LocalHost
from holdfast.core.fleet.agents.journal import (
    AcceptedRecord,
    ExitedRecord,
    GoRecord,
    ProcessMark,
    StartedRecord,
    Step,
)
from holdfast.errors import DiskFull
from tests.unit.core.test_agent_journal import LIFE, RESULT


class CrashNow(BaseException):
    """The power fails."""


class Power(Disk):
    """A disk that loses what was not synced when the power fails before a step."""

    def __init__(self, folder: Path, fails_before: int, kept: float) -> None:
        self.folder = folder
        self.left = fails_before
        self.kept = kept
        """The share of unsynced bytes that reached the disk all the same."""
        self.durable: dict[Path, int] = {}
        self.named: set[Path] = set()

    def step(self, name: str, do: Callable[[], Any]) -> Any:
        if self.left == 0:
            self.lose()
            raise CrashNow(name)
        self.left -= 1
        done = do()
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        if name.startswith("sync folder"):
            self.named |= {*files}
        elif name.startswith("sync"):
            self.durable |= {path: path.stat().st_size for path in files}
        return done

    def lose(self) -> None:
        for path in [path for path in self.folder.rglob("*") if path.is_file()]:
            if path not in self.named and self.kept < 0.5:
                path.unlink()
                continue
            safe = self.durable.get(path, 0)
            size = path.stat().st_size
            os.truncate(path, safe + int((size - safe) * self.kept))


def the_file(folder: Path) -> Path:
    [path] = folder.glob("*.log")
    return path


async def journal_in(folder: Path, disk: Disk | None = None) -> HostJournal:
    journal = HostJournal(LocalHost(disk), folder, "j-1")
    await journal.load()
    return journal


@settings(max_examples=150)
@given(st.integers(0, 40), st.floats(0, 1))
async def test_a_power_failure_loses_nothing_that_was_returned(
    tmp_path_factory: pytest.TempPathFactory, fails_before: int, kept: float
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    returned = 0
    disk = Power(folder, fails_before, kept)
    try:
        journal = await journal_in(folder, disk)
        for record in LIFE:
            await journal.append(7, record)
            returned += 1
        await journal.append(8, LIFE[0])
        returned += 1
    except CrashNow:
        pass
    logs = await HostJournal(LocalHost(), folder, "j-2").load()
    found = {log.token: log for log in logs}
    assert not any(log.is_damaged for log in logs)
    if returned:
        assert found[7].records[:returned] == LIFE[: min(returned, 7)]
        # The next record may be there too: it was written, and its step was not taken yet.
        assert len(found[7].records) <= returned + 1
    if returned == 8:
        assert found[8].step is Step.OFFERED


async def test_records_follow_a_write_that_was_cut_off(tmp_path: Path) -> None:
    journal = await journal_in(tmp_path)
    await journal.append(7, LIFE[0])
    path = the_file(tmp_path)
    path.write_bytes(path.read_bytes() + b"12345678 {half")
    again = HostJournal(LocalHost(), tmp_path, "j-2")
    [log] = await again.load()
    assert log.torn_bytes == 14
    await again.append(7, AcceptedRecord())
    [log] = await HostJournal(LocalHost(), tmp_path, "j-3").load()
    assert (log.torn_bytes, log.records) == (0, LIFE[:2])


async def test_the_id_is_made_once(tmp_path: Path) -> None:
    first = await journal_in(tmp_path)
    second = HostJournal(LocalHost(), tmp_path, "j-2")
    await second.load()
    assert first.journal_id == second.journal_id == "j-1"


class Failing(Disk):
    """Fails the named steps."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def step(self, name: str, do: Callable[[], Any]) -> Any:
        if name in self.names:
            if name.startswith("write"):
                do()
            raise OSError(errno.ENOSPC, "no space left")
        return do()


async def test_a_full_disk_is_an_error_and_leaves_no_half_record(tmp_path: Path) -> None:
    disk = Failing()
    journal = await journal_in(tmp_path, disk)
    await journal.append(7, LIFE[0])
    for names in (("write journal",), ("sync journal",)):
        disk.names = names
        with pytest.raises(DiskFull, match="no space left"):
            await journal.append(7, AcceptedRecord())
    disk.names = ()
    await journal.append(7, AcceptedRecord(), GoRecord())
    [log] = await HostJournal(LocalHost(), tmp_path, "j-2").load()
    assert log.records == LIFE[:3]


async def test_a_journal_that_cannot_be_mended_takes_no_more(tmp_path: Path) -> None:
    disk = Failing()
    journal = await journal_in(tmp_path, disk)
    await journal.append(7, LIFE[0])
    disk.names = ("sync journal", "cut journal")
    with pytest.raises(DiskFull):
        await journal.append(7, AcceptedRecord())
    disk.names = ()
    with pytest.raises(DiskFull, match="cannot be written any more"):
        await journal.append(7, AcceptedRecord())
    await journal.append(8, LIFE[0])


async def test_the_newest_token_is_never_forgotten(tmp_path: Path) -> None:
    journal = await journal_in(tmp_path)
    for token in (7, 8, 9):
        await journal.append(token, LIFE[0])
    await journal.forget([7, 8, 9, 10])
    [log] = await HostJournal(LocalHost(), tmp_path, "j-2").load()
    assert log.token == 9


async def test_damage_is_kept_as_it_is(tmp_path: Path) -> None:
    journal = await journal_in(tmp_path)
    await journal.append(7, LIFE[0], StartedRecord(ProcessMark(1, 2, "b")), GoRecord())
    path = the_file(tmp_path)
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    again = HostJournal(LocalHost(), tmp_path, "j-2")
    [log] = await again.load()
    assert log.is_damaged
    assert path.read_bytes() == bytes(data)
    await again.append(7, ExitedRecord(RESULT))
    [log] = await HostJournal(LocalHost(), tmp_path, "j-3").load()
    assert log.is_damaged


async def test_files_are_of_their_owner_only(tmp_path: Path) -> None:
    journal = await journal_in(tmp_path / "journal")
    await journal.append(7, LIFE[0])
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "journal").iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE((tmp_path / "journal").stat().st_mode) == 0o700


class FailsFor(Disk):
    """Fails a step for the second file."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0

    def step(self, name: str, do: Callable[[], Any]) -> Any:
        if name == self.name:
            self.count += 1
            if self.count == 2:
                raise OSError(errno.ENOSPC, "no space left")
        return do()


@pytest.mark.parametrize("step", ["create", "write", "sync new", "rename", "sync folder of"])
def test_one_of_several_files_that_fails_does_not_stop_the_others(
    tmp_path: Path, step: str
) -> None:
    files = [(str(tmp_path / str(n)), b"data %d" % n) for n in range(3)]
    failures = FailsFor(f"{step} x").replace_all(files, "x")
    assert [failure is None for failure in failures] == [True, False, True]
    assert [(tmp_path / str(n)).read_bytes() for n in (0, 2)] == [b"data 0", b"data 2"]
