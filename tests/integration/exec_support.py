"""An exchange that outlives repeated deaths of the process that uses it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from holdfast.clock import VirtualClock
from holdfast.metrics import Meter
from holdfast.orders.errors import ExchangeTimeout
from holdfast.orders.exchange.faults import CALM, Faults
from holdfast.orders.exchange.port import Exchange, ExchangeOrder, Fill, Quote, Request
from holdfast.orders.exchange.simulated import SimulatedExchange
from holdfast.orders.execution.alerts import AlertHook
from holdfast.orders.execution.loop import ExecutionLoop
from holdfast.orders.execution.reconcile import Difference, compare
from holdfast.orders.execution.risk import Limits, RiskMonitor
from holdfast.orders.logstore.disk import Disk
from holdfast.orders.logstore.durable import DurableOrderStore
from holdfast.orders.model.order import Intent, Side
from holdfast.primitives.kv import RedisKV

T = TypeVar("T")
SYMBOL = "BTCUSDT"


class Crash(BaseException):
    """The death of the process: nothing catches it, nothing is written after it."""


class Death:
    """Counts the steps of a life, and ends it before or after one of them."""

    def __init__(self) -> None:
        self.steps = 0
        self.at: int | None = None
        self.is_dead = False

    def after(self, steps: int | None) -> None:
        self.at = None if steps is None else self.steps + steps
        self.is_dead = False

    def passes(self, do: Callable[[], T]) -> T:
        """A step has two ends: odd numbers die before it, even numbers after it."""
        self._tick()
        done = do()
        self._tick()
        return done

    def _tick(self) -> None:
        self.steps += 1
        if self.is_dead or self.steps == self.at:
            self.is_dead = True
            raise Crash


class MortalDisk(Disk):
    """Writes without syncing: the process dies here, not the machine."""

    def __init__(self, death: Death) -> None:
        self._death = death

    def step(self, name: str, do: Callable[[], T]) -> T:
        if name.startswith("sync"):
            return self._death.passes(lambda: None)  # type: ignore[return-value]
        return self._death.passes(do)


class Watched:
    """An exchange whose calls are counted, may kill the process, and may go unanswered."""

    def __init__(self, inner: Exchange, death: Death | None = None) -> None:
        self._inner = inner
        self._death = death or Death()
        self.requests: list[Request] = []
        self.calls: list[str] = []
        self.mute: set[str] = set()
        """Calls that act and are never answered."""
        self.blind: list[str] = []
        """Orders placed again although the exchange had not just said that it does not know them."""
        self._may_place: dict[str, bool] = {}

    def place(self, request: Request) -> ExchangeOrder:
        name = request.client_order_id
        self.requests.append(request)
        if not self._may_place.get(name, True):
            self.blind.append(name)
        self._may_place[name] = False
        return self._through("place", lambda: self._inner.place(request))

    def cancel(self, client_order_id: str) -> ExchangeOrder | None:
        return self._through("cancel", lambda: self._inner.cancel(client_order_id))

    def find(self, client_order_id: str) -> ExchangeOrder | None:
        found = self._through("find", lambda: self._inner.find(client_order_id))
        self._may_place[client_order_id] = found is None
        return found

    def orders(self) -> list[ExchangeOrder]:
        return self._through("orders", self._inner.orders)

    def fills(self) -> list[Fill]:
        return self._death.passes(self._inner.fills)

    def quote(self, symbol: str) -> Quote:
        return self._inner.quote(symbol)

    def _through(self, name: str, call: Callable[[], T]) -> T:
        self.calls.append(name)
        answer = self._death.passes(call)
        if name in self.mute:
            raise ExchangeTimeout(f"{name} is not answered")
        return answer


class World:
    """One exchange, one state directory, and the loop that uses it at the moment."""

    def __init__(
        self,
        folder: Path,
        *,
        seed: int = 1,
        faults: Faults = CALM,
        limits: Limits | None = None,
        on_alert: AlertHook | None = None,
        meter: Meter | None = None,
    ) -> None:
        self.folder = folder
        self.clock = VirtualClock()
        self.death = Death()
        self.simulated = SimulatedExchange(self.clock, seed=seed, faults=faults)
        self.exchange = Watched(self.simulated, self.death)
        self._limits = limits
        self._on_alert = on_alert
        self._meter = meter
        self.store = self._opened()
        self.risk = RiskMonitor(limits)
        self.loop = self._made()

    def _opened(self) -> DurableOrderStore:
        return DurableOrderStore(
            RedisKV(self.clock.now), self.folder, self.clock.now, disk=MortalDisk(self.death)
        )

    def _made(self) -> ExecutionLoop:
        return ExecutionLoop(
            exchange=self.exchange,
            order_store=self.store,
            risk_monitor=self.risk,
            clock=self.clock,
            on_alert=self._on_alert,
            meter=self._meter,
        )

    def die(self) -> None:
        """Ends the old life: it writes nothing more and its lock is free."""
        self.store._journal.close()
        self.death.after(None)

    def restart(self, downtime: float = 30.0) -> ExecutionLoop:
        """The old process has ended; a new one opens the directory."""
        self.die()
        return self.restart_keeping_death(downtime)

    def restart_keeping_death(self, downtime: float = 30.0) -> ExecutionLoop:
        """The same, for a life that will end again."""
        self.clock.pause(downtime)
        self.simulated.fills()  # messages of the downtime are lost
        self.store = self._opened()
        self.risk = RiskMonitor(self._limits)
        self.loop = self._made()
        return self.loop

    def place(self, key: str, qty: str = "1", side: Side = Side.BUY) -> str:
        return self.loop.place(wish(key, qty, side)).client_order_id

    def step(self, seconds: float = 1.0) -> None:
        self.clock.pause(seconds)
        self.loop.step([self.simulated.quote(SYMBOL)])

    def differences(self) -> list[Difference]:
        """Differences between the store and the exchange's book, without the network."""
        return compare(self.store.orders(), self.simulated.truth())

    def acted_twice(self) -> set[str]:
        acted = self.simulated.book.acted
        return {name for name in acted if acted.count(name) > 1}


def wish(key: str, qty: str = "1", side: Side = Side.BUY) -> Intent:
    return Intent(SYMBOL, side, Decimal(qty), Decimal(100), key)
