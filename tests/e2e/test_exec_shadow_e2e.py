"""The execution demo as its users run it: in separate processes, some of which are killed with kill -9.

After each run the two books are compared from outside: the store's directory, opened again, and the file
of the exchange, which has every request.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from holdfast.clock import VirtualClock
from holdfast.orders.demo import wish
from holdfast.orders.exchange.faults import ROUGH
from holdfast.orders.exchange.port import ExchangeOrder
from holdfast.orders.exchange.simulated import SimulatedExchange
from holdfast.orders.execution.reconcile import compare
from holdfast.orders.logstore.durable import DurableOrderStore
from holdfast.orders.model.order import Order
from holdfast.primitives.kv import RedisKV
from tests.acceptance.cli_support import Cli, run_inside

SEED = 4
SYMBOLS = ("BTCUSDT", "ETHUSDT")
DEMO = (sys.executable, "-m", "holdfast.orders.demo")
DURABLE = ("--shadow", "--durable-state", "--seed", str(SEED), "--symbols", ",".join(SYMBOLS))


class Books(NamedTuple):
    """The orders of both sides, read from outside."""

    ours: list[Order]
    theirs: list[ExchangeOrder]
    acted: Counter[str]
    epoch: int


def books(state: Path) -> Books:
    clock = VirtualClock()
    store = DurableOrderStore(RedisKV(clock.now), state, clock.now)
    exchange = SimulatedExchange(clock, seed=SEED, faults=ROUGH, path=state / "exchange.jsonl")
    ours = store.orders()
    clock.set(max(order.updated_at for order in ours))  # a run ends by writing its result
    found = Books(ours, exchange.truth(), Counter(exchange.book.acted), store.freeze_state().epoch)
    exchange.close()
    store.close()
    return found


def assert_once(found: Books, iterations: int) -> None:
    """Every intent of the strategy is one order in the store, and at most one at the exchange."""
    wanted = {wish(SEED, n, symbol).key for n in range(iterations) for symbol in SYMBOLS}
    assert Counter(order.idem_key for order in found.ours) == dict.fromkeys(wanted, 1)
    assert set(found.acted.values()) <= {1}
    known = {order.client_order_id for order in found.ours}
    assert set(found.acted) <= known, "the exchange has what we do not know"
    missing = [o for o in found.ours if o.client_order_id not in found.acted]
    assert all(o.state == "CANCELED" and not o.filled_qty for o in missing)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def demo(cli: Cli, state: Path, *args: str) -> dict[str, Any]:
    """A complete run."""
    done = subprocess.run(
        [*DEMO, *DURABLE, "--state-dir", str(state), "-o", "json", *args],
        cwd=cli.folder,
        env=cli.env,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def killed(cli: Cli, state: Path, *args: str, at: str = "", lines: int = 1) -> int:
    """Starts a run and kills it at the first line that has `at`, or after that many lines of its log. Its
    exit code: -9, or 0 when it was done before."""
    process = subprocess.Popen(
        [*DEMO, *DURABLE, "--state-dir", str(state), "--log-level", "info", *args],
        cwd=cli.folder,
        env=cli.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    seen = _read(process.stderr, at, lines)
    process.send_signal(signal.SIGKILL)
    process.stderr.close()
    code = process.wait(timeout=60)
    assert seen or code == 0, f"it ended without '{at}'"
    return code


def _read(log: IO[str], at: str, lines: int) -> bool:
    for line in log:
        lines -= at in line
        if lines <= 0:
            return True
    return False


def test_scenario_4_restart_with_recovery(cli: Cli, state: Path) -> None:
    """--durable-state, kill -9 in the middle, --durable-state --recover: nothing lost, nothing twice."""
    code = killed(cli, state, "--iterations", "5000", at="[STEP] iteration 12")
    assert code == -signal.SIGKILL
    before = books(state)
    assert len(before.ours) >= 24
    end = len(before.ours) // len(SYMBOLS) + 20
    report = demo(cli, state, "--recover", "--iterations", str(end))
    assert report["recovery"]["recovered"]
    recovered = [order["client_order_id"] for order in report["recovery"]["open_orders"]]
    assert recovered == [order.client_order_id for order in before.ours if order.is_open]
    assert report["recovery"]["open_orders_count"] == len(recovered) > 0
    after = books(state)
    assert {o.client_order_id for o in before.ours} <= {o.client_order_id for o in after.ours}
    assert_once(after, end)
    assert compare(after.ours, after.theirs) == []


def test_a_demo_killed_repeatedly_completes(cli: Cli, state: Path) -> None:
    kills = 0
    for lines in (4, 12, 21, 33):
        recover = ("--recover",) if state.exists() else ()
        args = (*recover, "--iterations", "25", "--interval", "20ms")
        kills += killed(cli, state, *args, lines=lines) != 0
    assert kills > 1, "it was done before it could be killed: the test proves nothing"
    report = demo(cli, state, "--recover", "--iterations", "25")
    found = books(state)
    assert_once(found, 25)
    assert compare(found.ours, found.theirs) == []
    assert report["stats"]["orders_placed"] == 25 * len(SYMBOLS)
    assert report["exchange"]["placed_twice"] == []


def test_scenario_5_idempotent_freeze_cancel(cli: Cli, state: Path) -> None:
    """--durable-state: each freeze cancels what is open at the time, those after a thaw too."""
    freezes = ("--freeze-at", "6", "--freeze-at", "16")
    report = demo(cli, state, *freezes, "--iterations", "19")
    assert report["stats"]["freeze_events"] == 2
    assert report["freeze"]["frozen"]
    by_epoch: dict[int, Counter[str]] = {0: Counter(), 1: Counter()}
    for order in report["orders"]:
        by_epoch[order["freeze_epoch"]][order["state"]] += 1
    assert by_epoch[0]["CANCELED"]
    assert by_epoch[1]["CANCELED"], "the second freeze cancelled nothing"
    assert report["stats"]["orders_open"] == 0
    found = books(state)
    assert [order for order in found.theirs if order.is_open] == []
    canceled = report["stats"]["orders_canceled"]
    again = demo(cli, state, *freezes, "--recover", "--iterations", "19")
    assert again["stats"]["orders_canceled"] == canceled
    assert again["stats"]["freeze_events"] == 2
    assert again["ok"]


def test_a_freeze_interrupted_by_kill_9_is_finished_after_the_restart(
    cli: Cli, state: Path
) -> None:
    frozen = ("--freeze-at", "3", "--iterations", "5")
    killed(cli, state, *frozen, "--interval", "300ms", at="[FREEZE] cancel_all")
    report = demo(cli, state, "--recover", *frozen)
    assert report["stats"]["freeze_events"] == 1
    assert report["freeze"]["frozen"]
    assert report["stats"]["orders_open"] == 0
    found = books(state)
    assert [order for order in found.theirs if order.is_open] == []
    assert compare(found.ours, found.theirs) == []


def test_live_trading_is_refused(tmp_path: Path) -> None:
    done = run_inside(tmp_path, "orders", "demo")
    assert done.code == 2
    assert done.said.startswith("error[not-supported]: live trading is not supported")
    problem = json.loads(run_inside(tmp_path, "orders", "demo", "-o", "json").said)
    assert (problem["code"], problem["status"]) == ("not-supported", 501)


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        (("--recover",), 2, "--recover needs --durable-state"),
        (("--iterations", "0"), 2, "--iterations is 0"),
        (("--symbols", ","), 2, "--symbols: name 1 to 50"),
        (("--symbols", "BTC USDT"), 2, "symbol"),
        (("--interval", "soon"), 2, "--interval is 'soon'"),
    ],
)
def test_bad_arguments_are_refused(
    tmp_path: Path, args: tuple[str, ...], code: int, word: str
) -> None:
    done = run_inside(tmp_path, "orders", "demo", "--shadow", *args)
    assert (done.code, done.out) == (code, "")
    assert word in done.said


def test_a_used_directory_needs_recover_and_its_own_seed(cli: Cli, state: Path) -> None:
    demo(cli, state, "--iterations", "3")
    where = ("orders", "demo", "--shadow", "--durable-state", "--state-dir", str(state))
    used = run_inside(cli.folder, *where)
    assert used.code == 6
    assert "go on with --recover" in used.said
    other = run_inside(cli.folder, *where, "--recover", "--seed", "99")
    assert other.code == 2
    assert f"seed {SEED}" in other.said


def test_one_directory_has_one_process(cli: Cli, state: Path) -> None:
    args = [*DEMO, *DURABLE, "--state-dir", str(state), "--interval", "10s", "--log-level", "info"]
    with subprocess.Popen(
        args, cwd=cli.folder, env=cli.env, stderr=subprocess.PIPE, text=True
    ) as first:
        assert first.stderr is not None
        assert _read(first.stderr, "[STEP]", 1)
        where = ("--shadow", "--durable-state", "--recover", "--state-dir", str(state))
        second = run_inside(cli.folder, "orders", "demo", *where)
        first.kill()
    assert second.code == 6
    assert "another store uses" in second.said


def test_the_table_and_the_names_are_for_people_and_pipes(tmp_path: Path) -> None:
    args = ("orders", "demo", "--shadow", "--iterations", "8")
    shown = run_inside(tmp_path, *args).out
    assert "orders placed" in shown
    assert shown.endswith("agree\n")
    names = run_inside(tmp_path, *args, "-o", "name").out.splitlines()
    assert len(set(names)) == 8
    assert all(name.startswith("hf-") for name in names)


def test_the_report_is_the_same_bytes_under_both_names(cli: Cli) -> None:
    args = ("--shadow", "--iterations", "30", "--freeze-at", "9", "--seed", "8", "-o", "json")
    first = cli.ok("orders", "demo", *args, PYTHONHASHSEED="1")
    second = subprocess.run(
        [*DEMO, *args],
        env={**os.environ, "PYTHONHASHSEED": "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert second.stdout.rstrip("\n") == first
    assert second.stdout.count("\n") == 1
