"""Reports of claims: what was written arrives once, in order, whatever the way does."""

from __future__ import annotations

import asyncio
import random
from base64 import b64decode
from typing import Any, cast

import pytest
from hypothesis import given, settings, strategies as st

from holdfast.client.node import reports as module
from holdfast.client.node.journal import Journal
from holdfast.client.node.report_log import HeldClaim
from holdfast.client.node.reports import Reports
from holdfast.client.node.wire import SyncWire
from holdfast.client.problems import problem
from holdfast.core.errors import GatewayUnavailable, TooLarge
from holdfast.core.exchange.offline import Fields
from holdfast.core.ids import Ids
from holdfast.core.output import Piece, Placement, place
from holdfast.errors import HoldfastError, QueueFull
from tests.unit.client.client_support import QuickClock

CLAIM = HeldClaim("task-1", "claim", 1)


class Server:
    """The two calls. `fates`: for each request whether it is lost, its answer is lost, or it succeeds."""

    def __init__(self) -> None:
        self.streams: dict[str, bytes] = {}
        self.points: list[str] = []
        self.fates: list[str] = []
        self.takes_bytes = 1_000_000
        self.refuses: HoldfastError | None = None
        self.requests = 0

    async def output(self, task_id: str, body: Fields) -> Fields:
        return self._answered(lambda: self._append(body))

    async def checkpoint(self, task_id: str, body: Fields) -> Fields:
        return self._answered(lambda: self._add(body))

    def _answered(self, act: Any) -> Fields:
        self.requests += 1
        fate = self.fates.pop() if self.fates else ""
        if fate == "lost":
            raise GatewayUnavailable("no network")
        if self.refuses is not None:
            raise self.refuses
        act()
        if fate == "unanswered":
            raise GatewayUnavailable("the answer was lost")
        return {"success": True}

    def _append(self, body: Fields) -> None:
        data, stored = b64decode(body["dataBase64"]), self.streams.get(body["stream"], b"")
        if len(data) > self.takes_bytes:
            raise TooLarge("too large")
        placed = place(len(stored), body["start"], data, (Piece(0, len(stored), stored),))
        assert placed.outcome in (Placement.APPEND, Placement.DUPLICATE)
        self.streams[body["stream"]] = stored + placed.data

    def _add(self, body: Fields) -> None:
        if body["checkpointId"] not in self.points:
            self.points.append(body["checkpointId"])


def opened(journal: Journal, seed: int = 1) -> Reports:
    return Reports(journal, "n", QuickClock(), Ids(random.Random(seed)))


def wired(server: Server) -> SyncWire:
    return cast(SyncWire, server)


WRITES = st.lists(
    st.tuples(
        st.sampled_from(["stdout", "stderr", "point", "send", "restart"]),
        st.binary(max_size=40),
        st.lists(st.sampled_from(["lost", "unanswered", ""]), max_size=4),
    ),
    max_size=25,
)


@given(WRITES, st.integers(5, 60))
@settings(max_examples=150)
def test_what_was_written_arrives_once_and_in_order(
    writes: list[tuple[str, bytes, list[str]]], takes_bytes: int
) -> None:
    async def run() -> None:
        server, journal = Server(), Journal(":memory:")
        server.takes_bytes = takes_bytes
        reports, seeds = opened(journal), iter(range(2, 100))
        wrote: dict[str, bytes] = {}
        points: list[str] = []
        for kind, data, fates in writes:
            if kind == "send":
                server.fates = fates
                try:
                    assert await reports.send(wired(server)) == []
                except GatewayUnavailable:
                    continue
            elif kind == "restart":
                reports = opened(journal, next(seeds))
            elif kind == "point":
                points.append(reports.add_point(CLAIM, "plan", data.hex(), ""))
            else:
                reports.add_output(CLAIM, data, kind)
                wrote[kind] = wrote.get(kind, b"") + data
        server.fates = []
        await reports.send(wired(server))
        assert server.streams == {name: data for name, data in wrote.items() if data}
        assert server.points == points
        assert (journal.reports.size(), journal.refusals()) == (0, [])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SEND_BYTES", 64)
        patch.setattr(module, "SEND_BYTES_MIN", 1)
        asyncio.run(run())


async def test_small_writes_share_a_request() -> None:
    server, journal = Server(), Journal(":memory:")
    reports = opened(journal)
    for n in range(100):
        reports.add_output(CLAIM, f"line {n}\n", "stdout")
    await reports.send(wired(server))
    assert server.requests == 2
    assert server.streams["stdout"].decode().splitlines()[-1] == "line 99"


async def test_refused_reports_are_conflicts_and_block_nothing() -> None:
    server, journal = Server(), Journal(":memory:")
    reports = opened(journal)
    reports.add_output(CLAIM, "late", "stdout")
    reports.add_point(CLAIM, "plan", {"n": 1}, "")
    reports.add_output(HeldClaim("task-2", "c", 7), "other", "stdout")
    lost = {"code": "lease-lost", "error": "LOCK_LOST", "detail": "gone", "reason": "expired"}
    server.refuses = problem(409, lost)
    [refusal] = await reports.send(wired(server), "task-1")
    assert refusal.code == "lease-lost"
    kept = journal.refusals()
    assert [(each.error, each.detail, each.task_id) for each in kept] == [
        ("LOCK_LOST", "gone", "task-1")
    ] * 2
    assert kept[0].change["output"]["dataBase64"] == "bGF0ZQ=="
    assert kept[1].change["checkpoint"]["data"] == {"n": 1}
    server.refuses = None
    assert await reports.send(wired(server)) == []
    assert server.streams == {"stdout": b"other"}


async def test_what_no_request_can_carry_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    server, journal = Server(), Journal(":memory:")
    server.takes_bytes = 10
    reports = opened(journal)
    reports.add_output(CLAIM, b"x" * 3_000, "stdout")
    reports.add_point(CLAIM, "plan", None, "")
    assert [error.code for error in await reports.send(wired(server))] == ["too-large"]
    assert len(server.points) == 1


def test_a_full_log_refuses_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNSENT_BYTES_MAX", 300)
    journal = Journal(":memory:")
    reports = opened(journal)
    reports.add_output(CLAIM, b"x" * 100, "stdout")
    reports.add_point(CLAIM, "plan", "y" * 20, "")
    with pytest.raises(QueueFull):
        reports.add_output(CLAIM, b"x" * 100, "stdout")
    with pytest.raises(QueueFull):
        reports.add_point(CLAIM, "plan", "y" * 100, "")
    assert opened(journal).is_waiting("task-1")
