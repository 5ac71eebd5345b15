"""A reply is lost, the caller retries: one effect, one answer. On every durable backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

import pytest

from holdfast.clock import VirtualClock
from holdfast.orders.model.order import OrderState, Side
from holdfast.orders.model.store import OrderStore
from holdfast.primitives.retry import retry
from tests.backends import LASTING_ORDERS
from tests.conformance.orders.support import OrderBench, make_order_bench

T = TypeVar("T")


class ReplyLost(ConnectionError):
    pass


@pytest.fixture(params=LASTING_ORDERS)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OrderBench]:
    made = make_order_bench(request.param, request, VirtualClock(), tmp_path)
    yield made
    made.close()


class Caller:
    """Calls until a reply arrives; two replies are lost, and the process restarts in between."""

    def __init__(self, bench: OrderBench) -> None:
        self._bench = bench
        self.store = bench.open()

    def retrying(self, call: Callable[[OrderStore], T]) -> T:
        tries = 0

        def once() -> T:
            nonlocal tries
            tries += 1
            answer = call(self.store)
            if tries == 2:
                self.store = self._bench.reopen()
            if tries <= 2:
                raise ReplyLost
            return answer

        answer = retry(once, attempts=5, base_ms=0.0, jitter_off=True)
        assert tries == 3
        return answer


@pytest.fixture
def caller(bench: OrderBench) -> Caller:
    return Caller(bench)


def test_retry_place_order_with_same_idem_key_has_a_single_effect(caller: Caller) -> None:
    order = caller.retrying(lambda s: s.place_order("BTCUSDT", Side.BUY, 1, 100, "key"))
    assert caller.store.orders() == [order]


def test_retry_update_order_state_makes_no_duplicate_updates(caller: Caller) -> None:
    name = caller.store.place_order("BTCUSDT", Side.BUY, 1, 100).client_order_id
    assert caller.retrying(lambda s: s.update_order_state(name, OrderState.OPEN, "open")) is True
    assert caller.store.orders()[0].version == 2


def test_retry_update_fill_makes_no_double_fills(caller: Caller) -> None:
    name = caller.store.place_order("BTCUSDT", Side.BUY, 1, 100).client_order_id
    assert caller.retrying(lambda s: s.update_fill(name, "0.5", 100, "fill")) is True
    assert caller.store.orders()[0].filled_qty == Decimal("0.5")
    assert caller.store.orders()[0].version == 2


def test_retry_cancel_all_gives_the_cached_result(caller: Caller) -> None:
    names = [caller.store.place_order("BTCUSDT", Side.BUY, n, 100).client_order_id for n in (1, 2)]
    assert caller.retrying(lambda s: s.cancel_all_open("freeze-1")) == names
    caller.store.place_order("BTCUSDT", Side.BUY, 3, 100)
    assert caller.retrying(lambda s: s.cancel_all_open("freeze-1")) == names
    assert [order.version for order in caller.store.orders()] == [2, 2, 1]
