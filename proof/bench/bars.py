"""The bars: ratios to peers and floors of the same run that Holdfast must reach."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from proof.bench.registry import SUBJECTS
from proof.bench.results import Results

CRASH_SECONDS = 15
CRASH_TASKS = 20


@dataclass(frozen=True)
class Bar:
    """One row of the last table."""

    scenario: str
    bar: str
    measured: str
    reached: bool | None
    """None: a needed figure was not measured."""


def _peers(store: str) -> list[str]:
    return [s.name for s in SUBJECTS if s.role == "peer" and s.store == store]


class _Judge:
    """Ratios of the medians of a run."""

    def __init__(self, results: Results) -> None:
        self.results = results

    def drain(self, subject: str) -> float | None:
        """Settled rate if the store can count, else the rate until the last handler."""
        settled = self.results.median("drain", subject, "settled_rate")
        return settled or self.results.median("drain", subject, "rate")

    def rate(self, scenario: str, subject: str) -> float | None:
        """Tasks per second."""
        return self.results.median(scenario, subject, "rate")

    def best(
        self, names: list[str], value: Callable[[str], float | None], *, least: bool = False
    ) -> tuple[str, float | None]:
        """Name and value of the best subject."""
        found = [(v, name) for name in names if (v := value(name)) is not None]
        if not found:
            return "none", None
        chosen = min(found) if least else max(found)
        return chosen[1], chosen[0]


def _ratio(
    scenario: str,
    against: str,
    top: float | None,
    base: float | None,
    bar: float,
    *,
    at_most: bool = False,
) -> Bar:
    sign = "<=" if at_most else ">="
    text = f"{sign} {bar:g}x {against}"
    if top is None or not base:
        return Bar(scenario, text, "not measured", None)
    ratio = top / base
    return Bar(scenario, text, f"{ratio:.2f}x", ratio <= bar if at_most else ratio >= bar)


def _at_most(scenario: str, value: float | None, bar: float, unit: str) -> Bar:
    measured = "not measured" if value is None else f"{value:.2f} {unit}"
    return Bar(scenario, f"<= {bar:g} {unit}", measured, None if value is None else value <= bar)


def judge(results: Results) -> list[Bar]:
    """All bars, in the order of the table."""
    j = _Judge(results)
    return [
        *_drains(j),
        *_enqueues(j),
        *_latencies(j),
        *_scaling(j),
        *_crashes(j),
        *_orders(j),
        *_locks(j),
        *_kv(j),
        *_live(j),
        *_deltas(j),
        *_remote(j),
        *_fleet(j),
    ]


def _fleet(j: _Judge) -> Iterator[Bar]:
    def figure(scenario: str, name: str, key: str) -> float | None:
        return j.results.median(scenario, name, key)

    small = figure("fleet1k", "holdfast-fleet", "seconds")
    yield _at_most("a command on 1,000 hosts, SQLite", small, 3, "s")
    large = figure("fleet10k", "holdfast-fleet-pg", "seconds")
    yield _at_most("a command on 10,000 hosts, PostgreSQL", large, 30, "s")
    yield _ratio(
        "CPU for each of 10,000 hosts, PostgreSQL",
        "for each of 1,000",
        figure("fleet10k", "holdfast-fleet-pg", "cpu"),
        figure("fleet1k", "holdfast-fleet-pg", "cpu"),
        1.25,
        at_most=True,
    )
    p99 = figure("webhook", "holdfast-fleet", "p99")
    yield _at_most("webhook p99, 100 jobs/s of 100 hosts, SQLite", p99, 50, "ms")
    idle = figure("agents_idle", "holdfast-fleet", "cpu")
    yield _at_most("CPU of 1,000 idle agents", idle, 5, "%")
    ours = figure("targets100", "holdfast-targets", "seconds")
    for peer in ("clustershell", "pyinfra"):
        other = figure("targets100", peer, "seconds")
        yield _ratio("a command on 100 local targets", peer, ours, other, 1, at_most=True)


def _remote(j: _Judge) -> Iterator[Bar]:
    """A remote worker against one with the database."""
    for remote, direct in (
        ("holdfast-remote", "holdfast-sqlite"),
        ("holdfast-remote-pg", "holdfast-pg"),
    ):
        yield _ratio(f"drain, {remote}", direct, j.drain(remote), j.drain(direct), 0.5)


def _deltas(j: _Judge) -> Iterator[Bar]:
    """10,000 a second, or 0.3 of the echo, whichever is lower."""
    for scenario in ("deltas", "deltas10"):
        echo = j.rate(scenario, "floor-deltas")
        for name in ("holdfast-deltas", "holdfast-deltas-pg"):
            rate = j.rate(scenario, name)
            if rate is None or echo is None:
                yield Bar(f"{scenario}, {name}", "10,000/s or 0.3x echo", "not measured", None)
                continue
            bar = min(10_000.0, 0.3 * echo)
            text = f"{rate:,.0f}/s, {rate / echo:.2f}x"
            yield Bar(f"{scenario}, {name}", f">= {bar:,.0f}/s", text, rate >= bar)


def _drains(j: _Judge) -> Iterator[Bar]:
    pg, lite = j.drain("holdfast-pg"), j.drain("holdfast-sqlite")
    fastest, fastest_rate = j.best(_peers("redis"), j.drain)
    yield _ratio("drain, PostgreSQL", "PgQueuer tuned", pg, j.drain("pgqueuer"), 3)
    yield _ratio("drain, PostgreSQL", f"fastest Redis peer ({fastest})", pg, fastest_rate, 1.5)
    yield _ratio("drain, PostgreSQL", "asyncpg loop, batches of 400", pg, j.drain("floor-pg"), 0.65)
    yield _ratio("drain, SQLite FULL", "Huey on SQLite", lite, j.drain("huey-sqlite"), 10)


def _enqueues(j: _Judge) -> Iterator[Bar]:
    one, many = "enqueue one by one", "enqueue, 64 callers"
    pg, lite = j.rate("enqueue", "holdfast-pg"), j.rate("enqueue", "holdfast-sqlite")
    yield _ratio(f"{one}, PostgreSQL", "asyncpg insert", pg, j.rate("enqueue", "floor-pg"), 0.8)
    yield _ratio(f"{one}, SQLite", "bare commits", lite, j.rate("enqueue", "floor-sqlite"), 0.7)
    yield _ratio(f"{many}, PostgreSQL", "one caller", j.rate("enqueue64", "holdfast-pg"), pg, 20)
    yield _ratio(f"{many}, SQLite", "one caller", j.rate("enqueue64", "holdfast-sqlite"), lite, 9)
    bulk, pgq = j.rate("bulk", "holdfast-pg"), j.rate("bulk", "pgqueuer")
    yield _ratio("bulk enqueue, PostgreSQL", "PgQueuer", bulk, pgq, 2)


def _latencies(j: _Judge) -> Iterator[Bar]:
    def p99(name: str) -> float | None:
        return j.results.median("latency", name, "p99")

    p50 = j.results.median("latency", "holdfast-pg", "p50")
    floor = j.results.median("latency", "floor-pg", "p50")
    yield _ratio("pick-up p50, PostgreSQL", "LISTEN/NOTIFY floor", p50, floor, 1.5, at_most=True)
    name, best = j.best(_peers("postgres"), p99, least=True)
    yield _ratio(
        "pick-up p99, PostgreSQL",
        f"best PostgreSQL peer ({name})",
        p99("holdfast-pg"),
        best,
        1,
        at_most=True,
    )
    apart = j.results.median("latency2", "holdfast-sqlite", "p50")
    yield _at_most("pick-up p50, SQLite, two processes", apart, 3.0, "ms")
    for name, store in (("holdfast-pg", "PostgreSQL"), ("holdfast-sqlite", "SQLite")):
        yield _at_most(f"idle worker, {store}", j.results.median("idle", name, "cpu"), 0.2, "% CPU")
    lite = j.results.median("latency", "holdfast-sqlite", "p50")
    yield _at_most("pick-up p50, SQLite in process", lite, 1.0, "ms")


def _scaling(j: _Judge) -> Iterator[Bar]:
    for name, store in (("holdfast-pg", "PostgreSQL"), ("holdfast-sqlite", "SQLite")):
        deep = j.results.median("depth", name, "deep")
        shallow = j.results.median("depth", name, "shallow")
        yield _ratio(f"1,000,000 waiting, {store}", "rate with 1,000 left", deep, shallow, 0.9)
    one, two = (j.results.median("cpu", "holdfast-pg", key) for key in ("one", "two"))
    yield _ratio("two processes, CPU, PostgreSQL", "one process", two, one, 1.6)


def _orders(j: _Judge) -> Iterator[Bar]:
    placed, raw = j.rate("orders", "holdfast-orders"), j.rate("orders", "floor-orders")
    yield _ratio("orders, 64 callers", "raw batched SQLite inserts", placed, raw, 0.5)


def _kv(j: _Judge) -> Iterator[Bar]:
    ours, fake = j.rate("kv", "holdfast-kv"), j.rate("kv", "fakeredis")
    yield _ratio("key-value store in memory", "fakeredis", ours, fake, 5)


def _locks(j: _Judge) -> Iterator[Bar]:
    def rate(name: str) -> float | None:
        return j.rate("locks", name)

    ours = rate("holdfast-locks")
    yield _ratio("lock and unlock, Redis", "raw SET NX and Lua", ours, rate("floor-locks"), 0.9)
    name, best = j.best(["redis-py", "pottery"], rate)
    yield _ratio("lock and unlock, Redis", f"best peer ({name})", ours, best, 1)


def _live(j: _Judge) -> Iterator[Bar]:
    ours, bare = j.rate("fanout", "holdfast-live"), j.rate("fanout", "floor-live")
    yield _ratio("events to 1,000 subscribers", "a bare broadcast", ours, bare, 0.7)
    yield _ratio(
        "events to 1,000 subscribers", "python-socketio", ours, j.rate("fanout", "socketio"), 3
    )
    with_stalled, without = (
        j.results.median("fanout_latency", "holdfast-live", key) for key in ("stalled", "p99")
    )
    yield _ratio(
        "p99 beside a stalled subscriber", "without", with_stalled, without, 1.1, at_most=True
    )
    seconds = j.results.median("behind", "holdfast-live", "seconds")
    yield Bar(
        "100,000 events behind",
        "caught up without a snapshot",
        "not measured" if seconds is None else f"{seconds:.1f} s",
        None if seconds is None else True,
    )
    idle = j.results.median("watchers_idle", "holdfast-live", "cpu")
    yield _at_most("CPU of 1,000 idle subscribers", idle, 5, "%")
    rest = j.rate("rest", "holdfast-rest")
    yield _ratio(
        "REST enqueue", "a bare route with one insert", rest, j.rate("rest", "floor-rest"), 0.6
    )


def _crashes(j: _Judge) -> Iterator[Bar]:
    for name, store in (("holdfast-pg", "PostgreSQL"), ("holdfast-sqlite", "SQLite")):
        finished = j.results.median("crash", name, "finished")
        twice = j.results.median("crash", name, "twice")
        seconds = j.results.median("crash", name, "seconds")
        bar = f"{CRASH_TASKS} of {CRASH_TASKS}, none twice, within {CRASH_SECONDS} s"
        if finished is None:
            yield Bar(f"kill -9, {store}", bar, "not measured", None)
            continue
        when = "not all" if seconds is None else f"{seconds:.1f} s"
        reached = finished == CRASH_TASKS and not twice and (seconds or 1e9) <= CRASH_SECONDS
        yield Bar(f"kill -9, {store}", bar, f"{finished:.0f}, {twice:.0f} twice, {when}", reached)
