"""Random faults of the exchange and deaths at any step of the loop; then recover, reconcile, compare.

    HOLDFAST_CAMPAIGN=5000 pytest tests/integration/test_exec_campaign.py      # a long one

A death is a step of the disk or a call of the exchange that is the last thing the process did; it may come
during recovery too. A wish whose placing was cut off is asked for again with the same key, as a caller would.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from hypothesis import given, settings, strategies as st

from holdfast.errors import Conflict
from holdfast.orders.errors import ExchangeTimeout, OrdersFrozen
from holdfast.orders.exchange.faults import CALM, Faults
from holdfast.orders.execution.exposure import Exposure
from holdfast.orders.execution.reconcile import ALARMING, Kind
from holdfast.orders.model.order import OrderState, Side
from tests.integration.exec_support import Crash, World

EXAMPLES = int(os.environ.get("HOLDFAST_CAMPAIGN", "60"))
RECOVERIES_MAX = 200


class Act(StrEnum):
    PLACE = "place"
    RETRY = "retry"
    STEP = "step"
    FREEZE = "freeze"
    THAW = "thaw"
    RESTART = "restart"


class Move(NamedTuple):
    """One event, after how many of its steps the process dies, and for how long."""

    act: Act
    dies_after: int | None = None
    downtime: float = 30.0


shares = st.sampled_from([0.0, 0.0, 0.1, 0.3])
faults = st.builds(
    Faults,
    lost_requests=shares,
    late_requests=shares,
    repeated_requests=shares,
    lost_replies=shares,
    outages=st.sampled_from([0.0, 0.0, 0.2]),
    rejects=shares,
    partial_fills=st.sampled_from([0.0, 0.5, 1.0]),
    resting=st.sampled_from([0.0, 0.5, 1.0]),
    lost_fills=shares,
    repeated_fills=shares,
    reordered_fills=shares,
)
often = [Act.PLACE] * 5 + [Act.RETRY, Act.STEP, Act.STEP, Act.FREEZE, Act.THAW, Act.RESTART]
moves = st.builds(
    Move, st.sampled_from(often), st.none() | st.integers(1, 45), st.sampled_from([0.0, 1.0, 30.0])
)


class Campaign:
    """A world, and the answers that were given in it."""

    def __init__(self, folder: Path, seed: int, day: Faults) -> None:
        self.world = World(folder, seed=seed, faults=day)
        self.acknowledged: dict[str, str] = {}
        self._count = 0
        self._unsure: list[str] = []

    def play(self, move: Move) -> None:
        self.world.death.after(move.dies_after)
        try:
            self._act(move)
        except Crash:
            self.recover(move)
        self.world.death.after(None)

    def recover(self, move: Move) -> None:
        """A new process; the first one may die as well."""
        dies_after = move.dies_after
        for _ in range(RECOVERIES_MAX):
            try:
                self.world.die()
                self.world.death.after(dies_after)
                report = self.world.restart_keeping_death(move.downtime).recover_from_restart()
                found = {Kind(each["kind"]) for each in report["differences"]}
                assert not found & ALARMING, "no fault of the network explains this"
            except (Crash, ExchangeTimeout):
                dies_after = None
            else:
                return
        raise AssertionError("it does not recover")

    def _act(self, move: Move) -> None:
        match move.act:
            case Act.PLACE:
                self._count += 1
                self._place(f"k{self._count}")
            case Act.RETRY:
                for key in [*self._unsure, *list(self.acknowledged)[-2:]]:
                    self._place(key)
            case Act.STEP:
                self.world.step()
            case Act.FREEZE:
                self.world.loop.freeze("stop")
                left = self.world.store.open_orders()
                assert all(order.state is OrderState.CANCEL_PENDING for order in left)
            case Act.THAW:
                try:
                    self.world.loop.thaw()
                except Conflict:
                    assert self.world.store.open_orders()
            case Act.RESTART:
                self.recover(move)

    def _place(self, key: str) -> None:
        """The caller: it relies on its answers, and repeats the calls without one."""
        if key not in self.acknowledged and key not in self._unsure:
            self._unsure.append(key)
        number = int(key[1:])
        try:
            name = self.world.place(
                key, qty=str(1 + number % 5), side=Side.BUY if number % 3 else Side.SELL
            )
        except OrdersFrozen:
            return
        assert self.acknowledged.setdefault(key, name) == name
        if key in self._unsure:
            self._unsure.remove(key)

    def end(self) -> None:
        """The network is calm: everything is settled, cancelled, and compared."""
        world = self.world
        world.simulated._faults = CALM
        self.recover(Move(Act.RESTART))
        self._check()
        world.loop.freeze("the end")
        assert world.store.open_orders() == []
        self._check()
        world.clock.pause(60)
        assert [order for order in world.simulated.truth() if order.is_open] == []
        self._check()
        world.die()

    def _check(self) -> None:
        world = self.world
        orders = world.store.orders()
        ours = {order.client_order_id: order.idem_key for order in orders}
        assert set(self.acknowledged.values()) <= set(ours), "an acknowledged order is lost"
        for key, count in Counter(ours.values()).items():
            assert count == 1, f"{key} is two orders"
        assert set(Counter(world.simulated.book.acted).values()) <= {1}
        assert set(world.simulated.book.acted) <= set(ours), "the exchange has what we do not know"
        assert world.exchange.blind == [], "placed again without asking"
        assert world.differences() == []
        assert world.store.verify() == []
        assert world.loop._desk.exposure.holdings == Exposure(orders).holdings


@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 1_000_000), day=faults, script=st.lists(moves, min_size=5, max_size=30))
def test_nothing_is_lost_and_nothing_is_placed_twice(
    seed: int, day: Faults, script: list[Move]
) -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-campaign-") as folder:
        campaign = Campaign(Path(folder), seed, day)
        for move in script:
            campaign.play(move)
        campaign.end()


def test_the_campaign_would_see_an_order_placed_twice() -> None:
    """With an exchange that acts on every copy of a request, the campaign fails."""
    with tempfile.TemporaryDirectory(prefix="holdfast-campaign-") as folder:
        campaign = Campaign(Path(folder), 1, Faults(repeated_requests=1.0, resting=1.0))
        book = campaign.world.simulated.book
        place = book._place

        def careless(request: object, at: float) -> None:
            book.resting.pop(request.client_order_id, None)  # type: ignore[attr-defined]
            place(request, at)  # type: ignore[arg-type]

        book._place = careless  # type: ignore[method-assign]
        campaign.play(Move(Act.PLACE))
        campaign.world.clock.pause(10)
        campaign.world.simulated.truth()
        assert campaign.world.acted_twice()
        campaign.world.die()
