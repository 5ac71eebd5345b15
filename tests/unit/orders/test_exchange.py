"""The simulated exchange: its promises to the loop, and that its faults happen."""

import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from holdfast.clock import BlockingClock, VirtualClock
from holdfast.errors import InvalidInput
from holdfast.orders.errors import CorruptState, ExchangeTimeout
from holdfast.orders.exchange.faults import CALM, ROUGH, Faults, draw
from holdfast.orders.exchange.log import ExchangeLog
from holdfast.orders.exchange.port import ExchangeOrder, ExchangeState, Fill, Request
from holdfast.orders.exchange.simulated import SimulatedExchange
from holdfast.orders.model.order import Side

AT_ONCE = Faults(partial_fills=0.0, resting=0.0, fill_max_ms=1_000.0)


def request(name: str, clock: BlockingClock, qty: str = "1", valid: float = 5.0) -> Request:
    return Request(name, "BTCUSDT", Side.BUY, Decimal(qty), Decimal(100), clock.now() + valid)


def made(faults: Faults = CALM, seed: int = 1, path: Path | None = None) -> SimulatedExchange:
    return SimulatedExchange(VirtualClock(), seed=seed, faults=faults, path=path)


def pass_by(exchange: SimulatedExchange, seconds: float) -> None:
    exchange.clock.pause(seconds)


def test_an_order_is_placed_filled_and_found_by_our_id() -> None:
    exchange = made(AT_ONCE)
    clock = exchange.clock
    placed = exchange.place(request("a", clock))
    assert (placed.state, placed.filled_qty) == (ExchangeState.OPEN, Decimal(0))
    pass_by(exchange, 2)
    found = exchange.find("a")
    assert found is not None
    assert (found.state, found.filled_qty) == (ExchangeState.FILLED, Decimal(1))
    assert exchange.find("b") is None
    assert [fill.filled_qty for fill in exchange.fills()] == [1]


def test_the_same_client_order_id_acts_once() -> None:
    exchange = made(AT_ONCE)
    first = request("a", exchange.clock)
    exchange.place(first)
    pass_by(exchange, 2)
    again = exchange.place(first)
    assert again.state is ExchangeState.FILLED
    assert exchange.book.acted == ["a"]


def test_a_call_takes_time() -> None:
    exchange = made(Faults(latency_min_ms=30, latency_max_ms=40))
    before = exchange.clock.now()
    exchange.place(request("a", exchange.clock))
    assert 0.06 <= exchange.clock.now() - before <= 0.08


def test_a_lost_reply_may_hide_an_order_that_arrived() -> None:
    exchange = made(Faults(lost_replies=1.0))
    with pytest.raises(ExchangeTimeout, match="the request may have arrived"):
        exchange.place(request("a", exchange.clock))
    assert exchange.book.acted == ["a"]


def test_a_lost_request_never_arrives() -> None:
    exchange = made(Faults(lost_requests=1.0))
    with pytest.raises(ExchangeTimeout):
        exchange.place(request("a", exchange.clock))
    pass_by(exchange, 100)
    assert exchange.truth() == []


def test_a_late_request_arrives_after_its_sender_timed_out() -> None:
    exchange = made(Faults(late_requests=1.0, late_max_ms=2_000))
    with pytest.raises(ExchangeTimeout):
        exchange.place(request("a", exchange.clock))
    assert exchange.truth() == []
    pass_by(exchange, 2)
    assert [order.client_order_id for order in exchange.truth()] == ["a"]


def test_a_request_is_not_accepted_after_valid_until() -> None:
    exchange = made(Faults(late_requests=1.0, late_max_ms=2_000))
    with pytest.raises(ExchangeTimeout):
        exchange.place(request("a", exchange.clock, valid=0.2))
    pass_by(exchange, 10)
    assert exchange.truth() == []


def test_a_request_that_the_network_repeats_acts_once() -> None:
    exchange = made(Faults(repeated_requests=1.0))
    exchange.place(request("a", exchange.clock))
    pass_by(exchange, 10)
    exchange.truth()
    assert exchange.book.acted == ["a"]


def test_no_call_gets_through_during_an_outage() -> None:
    exchange = made(Faults(outages=1.0))
    for call in (
        lambda: exchange.find("a"),
        lambda: exchange.cancel("a"),
        exchange.orders,
        lambda: exchange.place(request("a", exchange.clock)),
    ):
        with pytest.raises(ExchangeTimeout):
            call()
    assert exchange.truth() == []


def test_a_rejected_order_stays_known() -> None:
    exchange = made(Faults(rejects=1.0))
    placed = exchange.place(request("a", exchange.clock))
    assert placed.state is ExchangeState.REJECTED
    assert placed.reason == "rejected by the exchange"
    assert exchange.find("a") == placed


def test_a_cancel_ends_an_order_and_keeps_what_was_filled() -> None:
    exchange = made(Faults(partial_fills=1.0, resting=1.0, fill_max_ms=10))
    exchange.place(request("a", exchange.clock, qty="4"))
    pass_by(exchange, 5)
    canceled = exchange.cancel("a")
    assert canceled is not None
    assert canceled.state is ExchangeState.CANCELED
    assert 0 < canceled.filled_qty < 4
    pass_by(exchange, 100)
    assert exchange.find("a") == canceled
    assert exchange.cancel("a") == canceled


def test_a_cancel_may_lose_against_a_fill() -> None:
    exchange = made(AT_ONCE)
    exchange.place(request("a", exchange.clock))
    pass_by(exchange, 2)
    lost = exchange.cancel("a")
    assert lost is not None
    assert lost.state is ExchangeState.FILLED


def test_cancelling_an_unknown_order_returns_none() -> None:
    assert made().cancel("unknown") is None


def messages(faults: Faults, orders: int = 30) -> tuple[list[Fill], list[ExchangeOrder]]:
    exchange = made(faults)
    come: list[Fill] = []
    for number in range(orders):
        exchange.place(request(f"o{number}", exchange.clock, qty="8"))
    for _ in range(300):
        pass_by(exchange, 0.1)
        come += exchange.fills()
    return come, exchange.truth()


def test_fill_messages_are_lost_repeated_and_reordered_by_their_shares() -> None:
    calm, book = messages(Faults(partial_fills=1.0, resting=0.0))
    ids = [fill.fill_id for fill in calm]
    assert len(ids) == len(set(ids)) > 60
    lost, _ = messages(Faults(partial_fills=1.0, resting=0.0, lost_fills=0.3))
    assert 0 < len(lost) < len(calm)
    repeated, _ = messages(Faults(partial_fills=1.0, resting=0.0, repeated_fills=0.5))
    assert len(repeated) > len(set(repeated)) == len(calm)
    mixed, _ = messages(Faults(partial_fills=1.0, resting=0.0, reordered_fills=0.5))
    by_order = [fill.filled_qty for fill in mixed if fill.client_order_id == "o1"]
    assert any(
        [f.filled_qty for f in mixed if f.client_order_id == o.client_order_id]
        != sorted(f.filled_qty for f in mixed if f.client_order_id == o.client_order_id)
        for o in book
    ), by_order


def test_quotes_are_stale_by_their_share() -> None:
    exchange = made(Faults(stale_quotes=1.0))
    pass_by(exchange, 4.9 - exchange.clock.now() % 5.0)
    quote = exchange.quote("BTCUSDT")
    assert exchange.clock.now() - quote.seen_at > 4
    assert quote.bid < quote.ask


def test_opening_the_file_again_shows_the_same_exchange(tmp_path: Path) -> None:
    """Fills go on while no process runs; the messages of that time are lost."""
    path = tmp_path / "exchange.jsonl"
    first = made(AT_ONCE, path=path)
    for name in "abc":
        first.place(request(name, first.clock))
    first.cancel("b")
    first.close()
    later = VirtualClock(first.clock.now() + 60)
    second = SimulatedExchange(later, seed=1, faults=AT_ONCE, path=path)
    assert [order.state for order in second.truth()] == [
        ExchangeState.FILLED,
        ExchangeState.CANCELED,
        ExchangeState.FILLED,
    ]
    assert second.fills() == []
    assert second.book.acted == ["a", "b", "c"]
    second.close()


def test_a_request_in_flight_at_a_crash_arrives(tmp_path: Path) -> None:
    faults = Faults(late_requests=1.0, late_max_ms=2_000)
    first = made(faults, path=tmp_path / "x")
    with pytest.raises(ExchangeTimeout):
        first.place(request("a", first.clock))
    first.close()
    later = VirtualClock(first.clock.now() + 60)
    second = SimulatedExchange(later, seed=1, faults=faults, path=tmp_path / "x")
    assert [order.client_order_id for order in second.truth()] == ["a"]
    second.close()


def test_a_file_truncated_at_any_byte_is_a_shorter_history(tmp_path: Path) -> None:
    path = tmp_path / "x"
    exchange = made(path=path)
    for name in "abc":
        exchange.place(request(name, exchange.clock))
    exchange.close()
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        log = ExchangeLog(path, 1)
        kept = log.read()
        log.append(kept[0]) if kept else None
        log.close()
        assert len(kept) == max(0, whole[:size].count(b"\n") - 1)
        again = ExchangeLog(path, 1)
        assert len(again.read()) == len(kept) + bool(kept)
        again.close()


def test_the_file_of_another_seed_is_refused(tmp_path: Path) -> None:
    made(path=tmp_path / "x").close()
    with pytest.raises(InvalidInput, match="seed 1"):
        ExchangeLog(tmp_path / "x", 2)


@pytest.mark.parametrize("damage", [b"{}\n", b'{"type":"exchange","seed":1}\n{"number":1}\nx\n'])
def test_a_file_of_another_format_is_refused(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "x").write_bytes(damage)
    with pytest.raises(CorruptState, match="not the file of a simulated exchange"):
        made(path=tmp_path / "x")


@given(seed=st.integers(0, 10_000), qty=st.decimals("0.0001", "1000", places=4))
@settings(max_examples=60)
def test_fills_only_rise_and_never_exceed_the_order(seed: int, qty: Decimal) -> None:
    exchange = made(Faults(partial_fills=0.8, resting=0.5), seed=seed)
    placed = Request("a", "X", Side.SELL, qty, Decimal("10.5"), exchange.clock.now() + 5)
    exchange.place(placed)
    plan = exchange.book.resting["a"].plan
    done = [fill.filled_qty for fill in plan]
    assert done == sorted(set(done))
    assert all(0 < each <= qty for each in done)
    assert all(fill.avg_fill_price >= Decimal("10.5") for fill in plan)


def test_the_same_seed_gives_the_same_run_in_every_process() -> None:
    code = (
        "from holdfast.orders.exchange.faults import ROUGH, Fate, draw;"
        "print([Fate.of(ROUGH, 7, 'place', 'x', n, now=0.0) for n in range(50)])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": str(number)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for number in (0, 1)
    }
    assert len(said) == 1
    assert ROUGH.lost_replies > 0
    assert 0 <= draw(7, "x") < 1
