"""Order stores over every backend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.clock import VirtualClock
from holdfast.orders.model.store import OrderStore
from tests.backends import LASTING_ORDERS, ORDERS
from tests.conformance.orders.support import OrderBench, make_order_bench


@pytest.fixture(params=ORDERS)
def bench(
    request: pytest.FixtureRequest, clock: VirtualClock, tmp_path: Path
) -> Iterator[OrderBench]:
    made = make_order_bench(request.param, request, clock, tmp_path)
    yield made
    made.close()


@pytest.fixture(params=LASTING_ORDERS)
def lasting(
    request: pytest.FixtureRequest, clock: VirtualClock, tmp_path: Path
) -> Iterator[OrderBench]:
    made = make_order_bench(request.param, request, clock, tmp_path)
    yield made
    made.close()


@pytest.fixture
def store(bench: OrderBench) -> OrderStore:
    return bench.open()
