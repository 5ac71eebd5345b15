"""The simulated network: faults of messages and calls."""

from __future__ import annotations

import contextvars

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.sim.disturbances import START_SECONDS, UNREST_SECONDS, WAKE_SECONDS
from holdfast.sim.draw import Draw
from holdfast.sim.loop import NODE, SimLoop
from holdfast.sim.net import CALL_SECONDS, Net, NetConditions
from holdfast.sim.trace import Trace


def make() -> tuple[SimLoop, Net]:
    loop = SimLoop(Draw(1, "test"))  # type: ignore[abstract]
    net = Net(loop, Draw(1, "net"), Trace(loop.time))
    for name in ("w0", "db"):
        net.join(name, 1)
    return loop, net


def test_a_half_open_connection_loses_messages_until_its_caller_times_out() -> None:
    loop, net = make()
    served: list[float] = []

    async def main() -> None:
        net.half_open("w0", "db")
        with pytest.raises(StoreUnavailable, match="no answer"):
            await net.call("w0", "db", "script", lambda: served.append(loop.time()))
        assert loop.time() == pytest.approx(CALL_SECONDS)
        await net.call("w0", "db", "script", lambda: served.append(loop.time()))

    context = contextvars.Context()
    context.run(NODE.set, "w0")
    loop.run_until_complete(context.run(main))
    assert len(served) == 1
    loop.close()


def timers_of(loop: SimLoop) -> int:
    """Timers of callers."""
    return sum(when == CALL_SECONDS for when, *_ in loop._timers)


@pytest.mark.parametrize("is_calm", [True, False])
def test_a_call_has_a_timer_unless_its_answer_is_known_to_arrive(is_calm: bool) -> None:
    loop, net = make()
    net.conditions = NetConditions(loss=0.0 if is_calm else 1e-9)
    timers: list[int] = []

    async def main() -> None:
        await net.call("w0", "db", "script", lambda: timers.append(timers_of(loop)))

    context = contextvars.Context()
    context.run(NODE.set, "w0")
    loop.run_until_complete(context.run(main))
    assert timers == ([0] if is_calm else [1])
    loop.close()


@pytest.mark.parametrize("when", ["before the call arrives", "before the answer is sent"])
def test_a_caller_in_a_calm_network_gives_up_a_server_that_dies(when: str) -> None:
    loop, net = make()

    def restart() -> None:
        net.leave("db")
        net.join("db", 2)

    def serve() -> None:
        if when == "before the answer is sent":
            net.cut("db", "w0")

    async def main() -> None:
        if when == "before the call arrives":
            loop.call_soon(restart)
        with pytest.raises(StoreUnavailable, match="no answer"):
            await net.call("w0", "db", "script", serve)
        assert loop.time() == pytest.approx(CALL_SECONDS)

    context = contextvars.Context()
    context.run(NODE.set, "w0")
    loop.run_until_complete(context.run(main))
    loop.close()


def test_disturbances_of_calls_and_lost_hints_are_tracked_separately() -> None:
    loop, net = make()
    assert net.disturbances.since("w0") == START_SECONDS
    net.cut("db", "w0")
    net.send("db", "w0", "hint", lambda: None)
    assert net.disturbances.since("w0") == START_SECONDS
    assert net.disturbances.heard_since("w0") == 0.0
    net.send("db", "w0", "answer to script", lambda: None)
    assert net.disturbances.since("w0") == UNREST_SECONDS
    loop.close()


def test_a_node_that_was_stopped_while_the_clock_was_set_corrects_its_reading_later() -> None:
    """Stopped or suspended alike, also when it resumes early; kept seeds 1007829 and 1009236."""
    loop, net = make()
    net.disturbances.stop("w0", 10.0, 100.0)
    net.disturbances.set_clock(20.0, 5.0)
    assert net.disturbances.clock_since("w0") == 100.0 + WAKE_SECONDS
    net.disturbances.resume_all(72.0)
    assert net.disturbances.clock_since("w0") == 72.0 + WAKE_SECONDS
    net.disturbances.set_clock(80.0, 5.0)
    assert net.disturbances.clock_since("w0") == 80.0 + UNREST_SECONDS
    loop.close()


def test_a_node_that_was_stopped_before_it_read_a_set_clock_corrects_its_reading_later() -> None:
    """A node reads the clock every few seconds only; kept seed 2001552."""
    loop, net = make()
    net.disturbances.set_clock(15.0, 16.0)
    net.disturbances.stop("w0", 19.0, 48.0)
    assert net.disturbances.clock_since("w0") == 48.0 + WAKE_SECONDS
    loop.close()
