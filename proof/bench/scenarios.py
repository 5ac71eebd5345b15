"""The scenarios: each is one operation of a subject with its sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proof.bench.operations import LEFT, SKIP
from proof.bench.registry import Measured

CALLERS = 64
CRASH_TASKS = 20
IDLE_SECONDS = 20
SUBSCRIBERS = 1_000
REST_CALLERS = 16
FLEET_HOSTS = 1_000
WEBHOOK_RATE = 100
WEBHOOK_HOSTS = 100


@dataclass(frozen=True)
class Metric:
    """One column of a table."""

    key: str
    title: str
    decimals: int = 0


@dataclass(frozen=True)
class Scenario:
    """One table of the report."""

    name: str
    title: str
    operation: str
    size: Callable[[Measured], int]
    """Full size for a subject; 0: it does not take part."""
    arguments: Callable[[Measured, int, bool], dict[str, Any] | list[dict[str, Any]]]
    """Arguments of the operation for (subject, size, quick); a list: several, each on a new store.

    ``fill``: that many tasks are put in first, then the store rests (statistics, checkpoint)."""
    metrics: tuple[Metric, ...]
    quick_divisor: int = 5
    rising: bool = True
    """Whether a larger figure is better."""
    once: bool = False
    """Measured in the first round only: it is slow, and counted rather than timed."""

    def requests(self, spec: Measured, *, quick: bool) -> list[dict[str, Any]]:
        """Build the requests for a subject; none if it does not take part."""
        size = self.size(spec)
        if not size:
            return []
        if quick:
            size = max(1, size // self.quick_divisor)
        found = self.arguments(spec, size, quick)
        parts = found if isinstance(found, list) else [found]
        return [{"op": self.operation, **part} for part in parts]


def _n(_: Measured, size: int, __: bool) -> dict[str, Any]:
    return {"n": size}


def _depths(spec: Measured, size: int, quick: bool) -> list[dict[str, Any]]:
    """The same number of tasks from two queues, which differ only in how many more wait."""
    window = min(size // 2, spec.depth_window // (5 if quick else 1))
    return [
        {"op": "depth_shallow", "fill": SKIP + window + LEFT, "window": window},
        {"op": "depth_deep", "fill": size, "window": window},
    ]


RATE = Metric("rate", "tasks/s")
DRAIN = (RATE, Metric("settled_rate", "settled/s"), Metric("from_go_rate", "from start/s"),
         Metric("worker_cpu", "worker CPU %"))  # fmt: skip

PICK_UP = (
    Metric("p50", "p50", 2),
    Metric("p95", "p95", 2),
    Metric("p99", "p99", 2),
    Metric("p99_calm", "p99 without steal", 2),
    Metric("slow_enqueue", "enqueue, % of slowest"),
    Metric("slow_stolen", "slowest with steal, %"),
    Metric("stolen", "stolen CPU, ms"),
)

FLEET = (Metric("seconds", "s until all have ended", 2), Metric("cpu", "server CPU us/host"))

SCENARIOS: tuple[Scenario, ...] = (
    Scenario("enqueue", "Enqueue one by one, one caller", "enqueue_one", lambda s: s.enqueue, _n,
             (RATE,)),
    Scenario("enqueue64", f"Enqueue from {CALLERS} concurrent callers", "enqueue_concurrent",
             lambda s: s.callers, lambda _, n, __: {"n": n, "callers": CALLERS}, (RATE,)),
    Scenario("bulk", "Bulk enqueue", "enqueue_bulk", lambda s: s.bulk, _n, (RATE,)),
    Scenario("drain", "Drain of no-op tasks, one worker process", "drain", lambda s: s.drain,
             lambda _, n, __: {"n": n, "processes": 1}, DRAIN),
    Scenario("drain2", "Drain of no-op tasks, two worker processes", "drain", lambda s: s.drain2,
             lambda _, n, __: {"n": n, "processes": 2}, DRAIN),
    Scenario("cpu", "Drain with handlers that compute 2 ms: one and two worker processes",
             "cpu_scaling", lambda s: s.cpu, _n,
             (Metric("one", "one/s"), Metric("two", "two/s"), Metric("ratio", "two/one", 2)),
             quick_divisor=2),
    Scenario("latency", "Pick-up latency, idle worker, one task every 50 ms (ms)", "latency",
             lambda s: s.latency, lambda _, n, __: {"n": n, "interval": 0.05},
             PICK_UP, quick_divisor=3, rising=False),
    Scenario("latency2", "Pick-up latency, idle worker in another process (ms)", "latency",
             lambda s: s.latency if s.role == "holdfast" else 0,
             lambda _, n, __: {"n": n, "interval": 0.05, "apart": True},
             PICK_UP,
             quick_divisor=3, rising=False),
    Scenario("idle", "An idle worker process, settled for five seconds", "idle",
             lambda s: IDLE_SECONDS if s.latency else 0, lambda _, n, __: {"seconds": n},
             (Metric("cpu", "CPU %", 2), Metric("calls", "store calls/s", 2)),
             quick_divisor=2, rising=False, once=True),
    Scenario("depth", f"Drain rate of a queue with {LEFT:,} tasks left, and of a very deep one", "",
             lambda s: s.depth, _depths,
             (Metric("deep", "deep/s"), Metric("shallow", "shallow/s"),
              Metric("ratio", "deep/shallow", 2)), quick_divisor=20),
    Scenario("orders", f"Durable orders from {CALLERS} concurrent callers", "orders",
             lambda s: s.orders, lambda _, n, __: {"n": n, "callers": CALLERS},
             (Metric("rate", "orders/s"),)),
    Scenario("locks", "Locks on one Redis: acquire and release, one caller", "locks",
             lambda s: s.locks, _n, (Metric("rate", "pairs/s"),)),
    Scenario("kv", "Key-value store in memory: set, get, hset, lpush, incr in turn", "kv",
             lambda s: s.kv, _n, (Metric("rate", "calls/s"),)),
    Scenario("deltas", "Reports of remote workers over gRPC, one in a message", "deltas",
             lambda s: s.deltas, lambda _, n, __: {"n": n, "changes": 1}, (Metric("rate", "changes/s"),)),
    Scenario("deltas10", "Reports of remote workers over gRPC, ten in a message", "deltas",
             lambda s: s.deltas * 3, lambda _, n, __: {"n": n, "changes": 10},
             (Metric("rate", "changes/s"),)),
    Scenario("fanout", f"Events to {SUBSCRIBERS:,} WebSocket subscribers", "fanout", lambda s: s.fanout,
             lambda _, n, __: {"n": n, "clients": SUBSCRIBERS},
             (Metric("rate", "frames/s"), Metric("cpu", "server CPU us/frame", 2),
              Metric("memory", "KiB/client", 1))),
    Scenario("fanout_latency",
             f"One event every 50 ms to {SUBSCRIBERS:,} subscribers, then with one that reads nothing (ms)",
             "fanout_latency", lambda s: s.watched,
             lambda _, n, __: {"n": n, "clients": SUBSCRIBERS, "interval": 0.05},
             (Metric("p50", "p50", 2), Metric("p99", "p99", 2), Metric("stalled", "p99 with stalled", 2),
              Metric("ratio", "stalled/none", 2)), quick_divisor=4, rising=False),
    Scenario("resume", "Subscribers that are dropped at once and come back 100 events later", "resume",
             lambda s: s.resume, _n,
             (Metric("seconds", "s until all are live", 2), Metric("cpu", "server CPU ms/client", 2)),
             quick_divisor=1, rising=False),
    Scenario("behind", "A subscriber that is very many events behind", "behind", lambda s: s.behind, _n,
             (Metric("rate", "events/s"), Metric("seconds", "s", 2), Metric("cpu", "server CPU s", 2)),
             quick_divisor=1, once=True),
    Scenario("watchers_idle", f"{SUBSCRIBERS:,} idle subscribers", "watchers_idle",
             lambda s: s.idle_watchers,
             lambda _, n, __: {"seconds": n, "clients": SUBSCRIBERS}, (Metric("cpu", "CPU %", 2),),
             quick_divisor=2, rising=False, once=True),
    Scenario("rest", f"REST enqueue from {REST_CALLERS} connections", "rest", lambda s: s.rest,
             lambda _, n, __: {"n": n, "callers": REST_CALLERS},
             (Metric("rate", "tasks/s"), Metric("cpu", "server CPU us/task"))),
    Scenario("fleet1k", "A command on 1,000 simulated hosts, server and agents in one process", "fleet",
             lambda s: min(s.fleet, FLEET_HOSTS), _n, FLEET, quick_divisor=1, rising=False),
    Scenario("fleet10k", "A command on 10,000 simulated hosts, server and agents in one process", "fleet",
             lambda s: s.fleet if s.fleet > FLEET_HOSTS else 0, _n, FLEET, quick_divisor=1, rising=False,
             once=True),
    Scenario("webhook", f"{WEBHOOK_RATE} jobs a second, each of {WEBHOOK_HOSTS} hosts (ms)", "webhook",
             lambda s: s.webhook, lambda _, n, __: {"n": n, "hosts": WEBHOOK_HOSTS, "rate": WEBHOOK_RATE},
             (Metric("p50", "p50", 1), Metric("p99", "p99", 1)), quick_divisor=2, rising=False),
    Scenario("agents_idle", f"{FLEET_HOSTS:,} idle agents", "agents_idle", lambda s: s.idle_agents,
             lambda _, n, __: {"n": FLEET_HOSTS, "seconds": n}, (Metric("cpu", "CPU %", 2),),
             quick_divisor=2, rising=False, once=True),
    Scenario("targets100", "A command on 100 local targets, 64 at once", "targets", lambda s: s.targets,
             lambda _, n, __: {"n": n, "rounds": 3},
             (Metric("seconds", "s", 2), Metric("disk", "s, journals on one disk", 2)),
             quick_divisor=1, rising=False),
    Scenario("memory", "Memory of a busy worker with nothing and with many tasks waiting", "memory",
             lambda s: s.memory, _n,
             (Metric("bytes_per_task", "bytes/task", 1), Metric("rss_mb", "RSS MB", 1),
              Metric("rss_full_mb", "RSS full MB", 1)), rising=False, once=True),
    Scenario("crash", f"kill -9 of the worker tree with {CRASH_TASKS} tasks running, restart",
             "crash", lambda s: int(s.crash_limit),
             lambda s, _, quick: {"n": CRASH_TASKS,
                                  "limit": min(s.crash_limit, 45) if quick else s.crash_limit},
             (Metric("finished", f"finished of {CRASH_TASKS}"), Metric("twice", "twice"),
              Metric("seconds", "s until all run", 1)), once=True),
)  # fmt: skip
