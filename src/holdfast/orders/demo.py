"""A trading day against the simulated exchange: `python -m holdfast.orders.demo --shadow`.

Promises: the same seed gives the same report, byte for byte. With durable state, a run that was killed
continues with `recover`, loses no order and places none twice; the report compares both books to prove
it.
Never: trades on a real exchange; live trading is not part of Holdfast.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from holdfast.clock import SystemClock, VirtualClock
from holdfast.errors import InvalidInput, NotSupported
from holdfast.orders.errors import NotReconciled, RiskRefused
from holdfast.orders.exchange.faults import ROUGH, Faults, draw
from holdfast.orders.exchange.simulated import SimulatedExchange, base_price
from holdfast.orders.execution.loop import ExecutionLoop
from holdfast.orders.execution.reconcile import compare
from holdfast.orders.execution.report import RecoveryReport, order_row, positions
from holdfast.orders.execution.risk import RiskMonitor
from holdfast.orders.model.memory import InMemoryOrderStore
from holdfast.orders.model.order import Intent, Order, Side
from holdfast.orders.model.store import OrderStore
from holdfast.primitives.retry import retry

T = TypeVar("T")
log = logging.getLogger("holdfast.orders")
ITERATIONS_MAX: Final = 1_000_000
SYMBOLS_MAX: Final = 50
STEP_SECONDS: Final = 1.0
"""Virtual time between iterations."""
DOWNTIME_SECONDS: Final = 30.0
"""Virtual time between two runs, in which the exchange goes on filling orders."""
KEY: Final = "demo"
PATIENCE: Final = 50
THAW_AFTER: Final = 3
"""Iterations after which the demo thaws a freeze."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    shadow: bool = False
    durable_state: bool = False
    state_dir: Path = Path("artifacts/state")
    recover: bool = False
    symbols: tuple[str, ...] = ("BTCUSDT",)
    iterations: int = 50
    seed: int = 0
    freeze_at: tuple[int, ...] = ()
    interval_seconds: float = 0.0
    """Real time between iterations, to watch the run or to kill it."""
    faults: Faults = ROUGH

    def check(self) -> None:
        """Raises InvalidInput or NotSupported, with the option as it is written on the command line."""
        if not self.shadow:
            raise NotSupported(
                "live trading is not supported: the demo trades on a simulated exchange only; "
                "add --shadow"
            )
        if self.recover and not self.durable_state:
            raise InvalidInput("--recover needs --durable-state: without it no state was stored")
        if not 1 <= self.iterations <= ITERATIONS_MAX:
            raise InvalidInput(
                f"--iterations is {self.iterations}: use a number from 1 to {ITERATIONS_MAX}"
            )
        if not 1 <= len(self.symbols) <= SYMBOLS_MAX or len(set(self.symbols)) < len(self.symbols):
            raise InvalidInput(
                f"--symbols: name 1 to {SYMBOLS_MAX} different symbols, e.g. BTCUSDT,ETHUSDT"
            )


def run(options: Options) -> dict[str, Any]:
    """Runs the demo once and returns its report."""
    options.check()
    clock = VirtualClock()
    with _opened(options, clock) as (store, exchange):
        loop = ExecutionLoop(
            exchange=exchange, order_store=store, risk_monitor=RiskMonitor(), clock=clock
        )
        first, recovery = 0, None
        if options.recover:
            recovery = _patiently(loop.recover_from_restart, clock)
            first = max((_iteration(order) for order in store.orders()), default=0)
        _Day(options, clock, exchange, loop).trade(first)
        _patiently(loop.reconcile, clock)
        store.save_snapshot()
        return _report(options, loop, exchange, recovery)


def _patiently(call: Callable[[], T], clock: VirtualClock) -> T:
    """Repeats a call that the exchange did not answer."""
    return retry(
        call, attempts=PATIENCE, base_ms=500, max_delay_ms=5_000, deterministic_clock=clock
    )


@contextmanager
def _opened(
    options: Options, clock: VirtualClock
) -> Iterator[tuple[OrderStore, SimulatedExchange]]:
    """The store and the exchange, after the downtime between two runs."""
    path = options.state_dir / "exchange.jsonl" if options.durable_state else None
    with closing(_store(options, clock)) as store:
        orders = store.orders()
        if orders and not options.recover:
            raise NotReconciled(
                f"{options.state_dir} has {len(orders)} orders of an earlier run: go on with --recover, "
                "or name another --state-dir"
            )
        exchange = SimulatedExchange(clock, seed=options.seed, faults=options.faults, path=path)
        with closing(exchange):
            latest = max([store.freeze_state().at, *(order.updated_at for order in orders)])
            if options.recover:
                clock.set(max(latest, exchange.latest_at) + DOWNTIME_SECONDS)
                exchange.fills()  # fill messages of the downtime are lost
            yield store, exchange


def _store(options: Options, clock: VirtualClock) -> OrderStore:
    if not options.durable_state:
        return InMemoryOrderStore(clock.now)
    from holdfast.orders.logstore.durable import DurableOrderStore
    from holdfast.primitives.kv import RedisKV

    return DurableOrderStore(RedisKV(clock.now), options.state_dir, clock.now)


class _Day:
    """The iterations of one run."""

    def __init__(
        self,
        options: Options,
        clock: VirtualClock,
        exchange: SimulatedExchange,
        loop: ExecutionLoop,
    ) -> None:
        self._options = options
        self._clock = clock
        self._exchange = exchange
        self._loop = loop
        self._real = SystemClock()
        self._thaw_at: int | None = None

    def trade(self, first: int) -> None:
        """Trades from iteration `first` on. Orders that an earlier run has placed are not placed again."""
        for iteration in range(first, self._options.iterations):
            log.info("[STEP] iteration %d", iteration)
            self._loop.step([self._exchange.quote(symbol) for symbol in self._options.symbols])
            self._freeze_or_thaw(iteration)
            if not self._is_frozen:
                for symbol in self._options.symbols:
                    self._place(wish(self._options.seed, iteration, symbol))
            self._clock.set(self._clock.now() + STEP_SECONDS)
            if self._options.interval_seconds:
                self._real.pause(self._options.interval_seconds)

    @property
    def _is_frozen(self) -> bool:
        return self._loop.store.freeze_state().frozen

    def _freeze_or_thaw(self, iteration: int) -> None:
        if iteration in self._options.freeze_at:
            self._loop.freeze(f"asked for at iteration {iteration}")
        if not self._is_frozen:
            self._thaw_at = None
        elif self._thaw_at is None:
            self._thaw_at = iteration + THAW_AFTER
        elif iteration >= self._thaw_at and not self._loop.store.open_orders():
            self._loop.thaw()
            self._thaw_at = None

    def _place(self, intent: Intent) -> None:
        try:
            self._loop.place(intent)
        except RiskRefused as refused:
            log.info("not placed: %s", refused)


def wish(seed: int, iteration: int, symbol: str) -> Intent:
    """What the demo's strategy orders: the same for the same iteration, so that it can be repeated."""
    side = Side.BUY if draw(seed, "side", iteration, symbol) < 0.5 else Side.SELL
    tenths = 1 + int(draw(seed, "qty", iteration, symbol) * 40)
    cents = int(
        base_price(seed, symbol) * (9_900 + 200 * draw(seed, "at", iteration, symbol)) / 100
    )
    price = Decimal(max(cents, 1)) / 100
    return Intent(symbol, side, Decimal(tenths) / 10, price, f"{KEY}:{seed}:{iteration}:{symbol}")


def _iteration(order: Order) -> int:
    name, *rest = (order.idem_key or "").split(":")
    return int(rest[1]) if name == KEY else 0


def _report(
    options: Options,
    loop: ExecutionLoop,
    exchange: SimulatedExchange,
    recovery: RecoveryReport | None,
) -> dict[str, Any]:
    """What was done, and whether the store and the exchange agree."""
    orders = loop.store.orders()
    truth = exchange.truth()
    differences = compare(orders, truth)
    acted = Counter(exchange.book.acted)
    twice = sorted(name for name, count in acted.items() if count > 1)
    freeze = loop.store.freeze_state()
    return {
        "ok": not differences and not twice,
        "seed": options.seed,
        "symbols": list(options.symbols),
        "iterations": options.iterations,
        "stats": msgspec.to_builtins(loop.stats()),
        "freeze": {"epoch": freeze.epoch, "frozen": freeze.frozen, "reason": freeze.reason},
        "positions": positions(orders),
        "recovery": recovery,
        "orders": [order_row(order) for order in orders],
        "exchange": {
            "orders": len(truth),
            "by_state": dict(sorted(Counter(each.state.value for each in truth).items())),
            "placed_twice": twice,
        },
        "differences": [msgspec.to_builtins(each) for each in differences],
    }


if __name__ == "__main__":
    # The command line is `holdfast orders demo`; this is the older name of the same command. The
    # command line is a layer above this package, so it is run, not imported.
    import runpy
    import sys

    sys.argv = ["holdfast", "orders", "demo", *sys.argv[1:]]
    runpy.run_module("holdfast", run_name="__main__")
