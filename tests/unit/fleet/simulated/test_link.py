"""The link of a simulated host: what is lost, doubled, overtaken and cut off."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.core.errors import GatewayUnavailable
from holdfast.core.fleet.agents.wire import AgentStart, AgentStarted, AgentSync, AgentSyncAnswer
from holdfast.errors import BadConfig
from holdfast.fleet.simulated.dice import Dice
from holdfast.fleet.simulated.faults import (
    SimulatedFaults,
    check_faults,
    parse_delay,
    parse_share,
)
from holdfast.fleet.simulated.link import Cuts, LossyLink
from holdfast.fleet.simulated.skew import SkewedClock
from holdfast.sim.clock import NodeClock
from holdfast.sim.draw import Draw
from holdfast.sim.loop import SimLoop

CALLS = 2_000


class Arrivals:
    """A server that counts what arrives."""

    def __init__(self) -> None:
        self.seqs: list[int] = []

    async def start(self, host_id: str, start: AgentStart) -> AgentStarted:
        raise AssertionError

    async def sync(self, host_id: str, sync: AgentSync) -> AgentSyncAnswer:
        self.seqs.append(sync.seq)
        return AgentSyncAnswer(
            seq=sync.seq, heartbeat_seconds=1.0, lease_seconds=1.0, server_epoch="e"
        )


def sent(faults: SimulatedFaults, seed: int = 1) -> tuple[list[int], Counter[str], float]:
    """Sends `CALLS` requests. Returns what arrived, how the calls ended, and how long they took."""
    loop = SimLoop(Draw(seed, "order"))  # type: ignore[abstract]
    server, ends = Arrivals(), Counter[str]()
    link = LossyLink("h", server, faults, Dice(seed), NodeClock(loop))

    async def speak() -> None:
        for seq in range(CALLS):
            try:
                await link.sync(AgentSync(boot_id="b", incarnation=1, seq=seq))
                ends["answered"] += 1
            except GatewayUnavailable:
                ends["lost"] += 1

    loop.run_until_complete(speak())
    seconds = loop.time()
    link.close()
    loop.close()
    return server.seqs, ends, seconds


def test_a_link_without_faults_takes_no_time_and_loses_nothing() -> None:
    seqs, ends, seconds = sent(SimulatedFaults())
    assert (seqs, ends["answered"], seconds) == (list(range(CALLS)), CALLS, 0.0)


def test_messages_are_lost_each_way() -> None:
    seqs, ends, _ = sent(SimulatedFaults(loss=0.1))
    assert ends["lost"] == pytest.approx(0.19 * CALLS, rel=0.2)
    assert len(seqs) == pytest.approx(0.9 * CALLS, rel=0.05)


def test_messages_are_late() -> None:
    _, ends, seconds = sent(SimulatedFaults(delay=(0.1, 0.5)))
    assert ends["answered"] == CALLS
    assert seconds == pytest.approx(0.6 * CALLS, rel=0.05)


def test_requests_arrive_twice() -> None:
    seqs, ends, _ = sent(SimulatedFaults(duplicate=0.05, delay=(0.1, 0.1)))
    assert ends["answered"] == CALLS
    twice = [seq for seq, n in Counter(seqs).items() if n == 2]
    assert len(twice) == pytest.approx(0.05 * CALLS, rel=0.4)


def test_later_requests_overtake_earlier_ones() -> None:
    seqs, ends, _ = sent(SimulatedFaults(reorder=0.05, delay=(0.1, 0.1)))
    assert ends["lost"] == pytest.approx(0.05 * CALLS, rel=0.4)
    assert seqs != sorted(seqs)
    assert len(set(seqs)) == len(seqs)


def test_a_host_is_cut_off_for_its_share_of_the_time() -> None:
    _, ends, _ = sent(SimulatedFaults(partition=0.3, delay=(0.5, 0.5)))
    assert 0.05 * CALLS < ends["lost"] < 0.6 * CALLS


def test_the_same_seed_gives_the_same_messages() -> None:
    faults = SimulatedFaults(loss=0.1, duplicate=0.1, reorder=0.1, delay=(0.0, 0.5))
    assert sent(faults, 3) == sent(faults, 3)
    assert sent(faults, 3) != sent(faults, 4)


def test_a_skewed_clock_is_wrong_and_goes_on() -> None:
    loop = SimLoop(Draw(1, "order"))  # type: ignore[abstract]
    true = NodeClock(loop)
    clock = SkewedClock.drawn(true, 3600.0, Dice(2))
    assert 1.0 < abs(clock.now() - true.now()) <= 3600.0
    loop.run_until_complete(clock.sleep(100.0))
    assert clock.monotonic() == pytest.approx(100.0)
    assert true.monotonic() == pytest.approx(100.0, rel=0.006)
    loop.close()


@pytest.mark.parametrize(("text", "share"), [("0.1", 0.1), ("10%", 0.1), (" 5 % ", 0.05), ("0", 0)])
def test_a_share_is_a_number_or_a_percentage(text: str, share: float) -> None:
    assert parse_share("loss", text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "ten", "1.5", "-0.1", "150%", "1%x", "nan", "inf"])
def test_a_wrong_share_is_named(text: str) -> None:
    with pytest.raises(BadConfig, match="loss is"):
        parse_share("loss", text)


def test_a_delay_is_one_time_or_two() -> None:
    assert parse_delay("0.05..0.5") == (0.05, 0.5)
    assert parse_delay("0.2") == (0.2, 0.2)


@pytest.mark.parametrize("text", ["", "x", "0.5..0.1", "-1", "0..inf", "nan", "0..nan"])
def test_a_wrong_delay_is_named(text: str) -> None:
    with pytest.raises(BadConfig, match="delay is"):
        parse_delay(text)


@pytest.mark.parametrize(
    "faults",
    [
        SimulatedFaults(loss=1.1),
        SimulatedFaults(crash=-0.1),
        SimulatedFaults(loss=0.5, partition=0.5),
        SimulatedFaults(skew=-1.0),
        SimulatedFaults(delay=(0.0, 61.0)),
    ],
)
def test_faults_that_cannot_be_are_refused(faults: SimulatedFaults) -> None:
    with pytest.raises(BadConfig):
        check_faults(faults)


def test_hosts_are_cut_off_for_their_share_of_the_time_from_the_beginning() -> None:
    cuts = [Cuts(0.1, Dice(seed, "cuts")) for seed in range(1_000)]
    for now in (5.0, 6.0, 1_000.0):
        assert 60 < sum(each.is_cut(now) for each in cuts) < 140


def test_a_host_without_cuts_is_never_cut_off() -> None:
    assert not Cuts(0.0, Dice(1)).is_cut(1e9)
