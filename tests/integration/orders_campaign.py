"""Kill -9 at every write boundary of the order store, and at random ones, in a loop.

    python -m tests.integration.orders_campaign --folder DIR [--rounds N] [--seed S] [--redis URL] [--long]

A child works through a script of calls, each with its key, and reports every acknowledgement on a pipe. It
is killed before, after, or in the middle of one named step of the disk; then another is killed at a step of
the recovery. Then the state must hold everything that was acknowledged, and working through the whole script
again must end in the one state that it always ends in: no key has acted twice.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeAlias, TypeVar

from holdfast.orders.logstore.disk import Disk
from holdfast.orders.logstore.durable import DurableOrderStore
from holdfast.orders.model.order import OrderState, Side
from holdfast.primitives.kv import RedisKV
from tests.unit.orders.state_support import QuickDisk

T = TypeVar("T")
MODES = ("before", "after", "half")
ORDERS = 3


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


class DeadlyDisk(QuickDisk):
    """Kills its process at one step. The system outlives the process, so a sync need not reach the platter;
    its step is there all the same."""

    def __init__(self, deadly: int = 0, mode: str = "before") -> None:
        self.names: list[str] = []
        self._deadly = deadly
        self._mode = mode

    def step(self, name: str, do: Callable[[], T]) -> T:
        self.names.append(name)
        if len(self.names) != self._deadly:
            return super().step(name, do)
        if self._mode != "before":
            super().step(name, do)
        die()

    def put(self, file: int, data: bytes | memoryview) -> int:
        if len(self.names) == self._deadly and self._mode == "half":
            super().put(file, data[: len(data) // 2])
            die()
        return super().put(file, data)


Step: TypeAlias = tuple[str, Callable[[DurableOrderStore], object]]


def script() -> list[Step]:
    """Every kind of write, each with a name that is also its key. The final state is the same however
    often it runs."""
    calls: list[Step] = []
    for number in range(ORDERS):
        key = f"k{number}"
        calls += [
            (f"place {key}", partial(place, key=key)),
            (f"open {key}", partial(opened, key=key)),
            (f"fill {key}", partial(filled, key=key)),
            (f"snapshot {number}", DurableOrderStore.save_snapshot),
        ]
    calls.append(("cancel", partial(DurableOrderStore.cancel_all_open, idem_key="cancel")))
    calls.append(("place last", partial(place, key="last")))
    return calls


def place(store: DurableOrderStore, key: str) -> str:
    return store.place_order("BTCUSDT", Side.BUY, 2, 100, key).client_order_id


def opened(store: DurableOrderStore, key: str) -> bool:
    return store.update_order_state(place(store, key), OrderState.OPEN, f"open {key}")


def filled(store: DurableOrderStore, key: str) -> bool:
    return store.update_fill(place(store, key), 1, 100, f"fill {key}")


def opened_store(folder: Path, redis: str | None, disk: Disk | None = None) -> DurableOrderStore:
    kv = RedisKV() if redis is None else RedisKV.connect(redis)
    return DurableOrderStore(kv, folder, lambda: 1_800_000_000.0, disk=disk or QuickDisk())


def in_child(work: Callable[[int], None]) -> list[str]:
    """Runs it in a separate process, which may die; returns the lines that it reported."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        status = 1
        try:
            work(writer)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as lines:
        found = [line.rstrip("\n") for line in lines]
    _, status = os.waitpid(child, 0)
    if status not in (0, signal.SIGKILL):
        raise SystemExit(f"a child ended with {status}, having done {found}")
    return found


def work_through(folder: Path, redis: str | None, disk: Disk | None) -> Callable[[int], None]:
    def work(writer: int) -> None:
        store = opened_store(folder, redis, disk)
        for name, call in script():
            call(store)
            os.write(writer, f"{name}\n".encode())
        store.close()

    return work


def check(folder: Path, redis: str | None, acknowledged: list[str], what: str) -> None:
    """Every acknowledged call exists; running the whole script again ends in the same state."""
    with opened_store(folder, redis) as store:
        assert store.verify() == [], what
        known = {order.idem_key: order for order in store.orders()}
        for name in acknowledged:
            verb, _, key = name.partition(" ")
            match verb:
                case "place":
                    assert key in known, f"{what}: {name} is lost"
                case "open":
                    assert known[key].version >= 2, f"{what}: {name} is lost"
                case "fill":
                    assert known[key].filled_qty == 1, f"{what}: {name} is lost"
                case "cancel":
                    assert known["k0"].state is OrderState.CANCEL_PENDING, f"{what}: {name}"
        for _, call in script():
            call(store)
        ends = [(o.idem_key, o.state.value, o.version, str(o.filled_qty)) for o in store.orders()]
        expected = [(f"k{n}", "CANCEL_PENDING", 4, "1") for n in range(ORDERS)]
        # A retry of the first cancel, after the last placement: it was answered, or takes effect
        # now.
        assert ends[:-1] == expected, f"{what}: {ends}"
        assert ends[-1][0] == "last", f"{what}: {ends}"
        assert store.verify() == [], what


def boundaries(folder: Path, redis: str | None, *, is_long: bool) -> int:
    """Every step once (in the long form, in every mode), and a second death during recovery."""
    disk = DeadlyDisk()
    work_through(folder / "whole", redis, disk)(os.open(os.devnull, os.O_WRONLY))
    cases = 0
    for number in range(1, len(disk.names) + 1):
        name = disk.names[number - 1]
        fitting = [mode for mode in MODES if mode != "half" or name.startswith("write")]
        for mode in fitting if is_long else [fitting[number % len(fitting)]]:
            place_ = folder / f"{number}-{mode}"
            fresh(redis)
            said = in_child(work_through(place_, redis, DeadlyDisk(number, mode)))
            for second in range(1, 20) if is_long else [1 + number % 6]:
                again = folder / "again"
                shutil.rmtree(again, ignore_errors=True)
                shutil.copytree(place_, again)
                more = in_child(work_through(again, None, DeadlyDisk(second, MODES[second % 2])))
                check(again, None, said + more, f"{name} ({mode}), then step {second}")
            check(place_, redis, said, f"{name} ({mode})")
            cases += 1
    return cases


def fresh(redis: str | None) -> None:
    if redis is not None:
        kv = RedisKV.connect(redis)
        keys = [*kv.scan(0, "orders:*", 100_000)[1], *kv.scan(0, "idem:*", 100_000)[1]]
        if keys:
            kv.delete(*keys)
        kv.close()


def random_deaths(folder: Path, redis: str | None, rounds: int, seed: int) -> int:
    """Eight threads in one child, with snapshots all the time. It dies after enough acknowledgements, and
    the next one continues."""
    fresh(redis)
    choice = random.Random(seed)
    place_ = folder / "random"
    keys: set[str] = set()
    for round_ in range(rounds):
        mine = [f"r{round_}-{number}" for number in range(60)]
        said = killed_after(place_, redis, mine, choice.randrange(1, 50))
        with opened_store(place_, redis) as store:
            assert store.verify() == [], f"round {round_}"
            names = {order.idem_key: order.client_order_id for order in store.orders()}
            assert len(names) == len(store.orders()), "a key has acted twice"
            for line in said:
                key, name = line.split()
                assert names.get(key) == name, f"round {round_}: {key} is lost"
            keys |= {key for key in names if key is not None}
            for key in mine:
                place(store, key)
            assert len(store.orders()) == 60 * (round_ + 1)
            if round_ % 3 == 0:
                store.save_snapshot()
    return rounds


def killed_after(folder: Path, redis: str | None, keys: list[str], enough: int) -> list[str]:
    """A child that its parent kills after a number of acknowledgements; returns all that it reported."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            place_all(folder, redis, keys, writer)
        finally:
            os._exit(0)
    os.close(writer)
    found: list[str] = []
    with os.fdopen(reader) as lines:
        for line in lines:
            found.append(line.rstrip("\n"))
            if len(found) == enough:
                os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return found


def place_all(folder: Path, redis: str | None, keys: list[str], writer: int) -> None:
    store = opened_store(folder, redis)

    def work(mine: list[str]) -> None:
        for key in mine:
            os.write(writer, f"{key} {place(store, key)}\n".encode())

    threads = [threading.Thread(target=work, args=(keys[number::8],)) for number in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        store.save_snapshot()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--redis")
    parser.add_argument("--long", action="store_true")
    chosen = parser.parse_args()
    cases = boundaries(chosen.folder, chosen.redis, is_long=chosen.long)
    rounds = random_deaths(chosen.folder, chosen.redis, chosen.rounds, chosen.seed)
    print(f"{cases} boundaries and {rounds} random deaths: nothing lost, nothing twice")


if __name__ == "__main__":
    main()
    sys.exit(0)
