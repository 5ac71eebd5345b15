"""Which subjects are measured, in which scenarios, with how many tasks.

Sizes aim at about three seconds per measurement; ``--quick`` divides them. A size of 0 means that the
subject does not take part.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from typing import Any, Literal

from proof.lab.session import SubjectSpec

Role = Literal["holdfast", "floor", "peer"]


@dataclass(frozen=True, kw_only=True)
class Measured(SubjectSpec):
    """One row of the tables: an adapter with its settings."""

    role: Role
    variant: dict[str, Any] = field(default_factory=dict)
    enqueue: int = 0
    callers: int = 0
    bulk: int = 0
    drain: int = 0
    drain2: int = 0
    cpu: int = 0
    latency: int = 200
    depth: int = 0
    depth_window: int = 50_000
    memory: int = 0
    orders: int = 0
    locks: int = 0
    kv: int = 0
    deltas: int = 0
    fanout: int = 0
    """Events to all subscribers."""
    watched: int = 0
    """Paced events to all subscribers."""
    resume: int = 0
    behind: int = 0
    idle_watchers: int = 0
    rest: int = 0
    fleet: int = 0
    """Simulated hosts of the larger job; the smaller one has 1,000."""
    webhook: int = 0
    idle_agents: int = 0
    """Seconds."""
    targets: int = 0
    crash_limit: float = 0
    """Seconds to wait for the twenty killed tasks; 0: not measured."""
    skip: str = ""
    """Why it cannot be measured."""

    def missing(self) -> str:
        """Reason why it cannot run here, or an empty string."""
        if self.skip or self.venv:
            return self.skip
        found = importlib.util.find_spec(self.module)
        return "" if found else f"no module {self.module} yet"


def _holdfast(name: str, store: str, *, module: str = "holdfast", **sizes: Any) -> Measured:
    module = f"proof.bench.subjects.{module}"
    return Measured(f"holdfast-{name}", module, store, role="holdfast", **sizes)


def _floor(name: str, module: str, store: str, **sizes: Any) -> Measured:
    return Measured(f"floor-{name}", f"proof.bench.subjects.{module}", store, role="floor", **sizes)


def _peer(name: str, venv: str, store: str, **sizes: Any) -> Measured:
    return Measured(name, f"proof.bench.peers.{venv}", store, venv, role="peer", **sizes)


SUBJECTS: tuple[Measured, ...] = (
    _holdfast(
        "pg", "postgres", enqueue=8_000, callers=40_000, bulk=200_000, drain=60_000, drain2=60_000,
        cpu=4_000, depth=1_000_000, memory=100_000, crash_limit=60,
    ),
    _holdfast(
        "sqlite", "sqlite", enqueue=15_000, callers=80_000, bulk=200_000, drain=100_000, drain2=100_000,
        cpu=4_000, depth=1_000_000, memory=100_000, crash_limit=60,
    ),
    _floor("pg", "floor_pg", "postgres", enqueue=8_000, bulk=200_000, drain=60_000,
           drain2=60_000, cpu=4_000, depth=1_000_000),
    _floor("pg-overlap", "floor_pg", "postgres", variant={"overlap": True}, drain=60_000,
           latency=0),
    _floor("sqlite", "floor_sqlite", "sqlite", enqueue=15_000, bulk=400_000, drain=100_000,
           latency=0),
    _floor("redis", "floor_redis", "redis", enqueue=20_000, drain=20_000),
    _holdfast("orders", "sqlite", module="holdfast_orders", latency=0, orders=150_000),
    _floor("orders", "floor_orders", "sqlite", latency=0, orders=150_000),
    _peer("pgqueuer", "pgqueuer", "postgres", variant={"batch": 100}, enqueue=5_000,
          callers=5_000, bulk=100_000, drain=60_000, drain2=60_000, cpu=2_000, depth=100_000,
          depth_window=10_000, memory=20_000, crash_limit=60),
    _peer("pgqueuer-default", "pgqueuer", "postgres", drain=60_000, latency=0),
    _peer("procrastinate", "procrastinate", "postgres", enqueue=2_500, callers=2_560, bulk=30_000,
          drain=1_500, drain2=2_000, cpu=600, depth=100_000, depth_window=4_000,
          memory=20_000, crash_limit=60),
    _peer("saq-pg", "saq", "postgres", enqueue=2_000, callers=2_560, drain=1_800, drain2=2_000,
          cpu=600, memory=2_000, crash_limit=30),
    _peer("chancy", "chancy", "postgres", enqueue=3_000, callers=2_560, bulk=10_000, drain=8_000,
          drain2=8_000, cpu=1_000, depth=20_000, depth_window=8_000, memory=10_000,
          crash_limit=150),
    _peer("dbos", "dbos", "postgres", enqueue=1_500, drain=2_000, memory=1_000, crash_limit=30),
    _peer("huey-pg", "huey", "postgres", enqueue=4_000, callers=2_560, drain=4_000, drain2=4_000,
          cpu=1_000, memory=4_000, crash_limit=20),
    _peer("huey-sqlite", "huey", "sqlite", enqueue=8_000, callers=5_120, drain=9_000,
          drain2=9_000, cpu=1_000, memory=10_000, crash_limit=20),
    _peer("huey-redis", "huey", "redis", enqueue=20_000, callers=20_480, drain=12_000,
          drain2=12_000, cpu=1_000, memory=10_000, crash_limit=20),
    _peer("repid", "repid", "redis", enqueue=15_000, callers=15_360, drain=25_000, drain2=30_000,
          cpu=2_000, memory=20_000, crash_limit=60),
    _peer("dramatiq", "dramatiq", "redis", enqueue=12_000, callers=12_800, drain=12_000,
          drain2=12_000, cpu=1_000, memory=10_000, crash_limit=30),
    _peer("celery", "celery", "redis", enqueue=6_000, callers=5_120, bulk=6_000, drain=3_000,
          memory=5_000, crash_limit=30),
    _peer("saq-redis", "saq", "redis", enqueue=12_000, callers=12_800, drain=6_000, drain2=6_000,
          cpu=1_000, memory=10_000, crash_limit=30),
    _peer("taskiq", "taskiq", "redis", enqueue=10_000, callers=10_240, drain=9_000, drain2=9_000,
          cpu=1_000, memory=10_000, crash_limit=30),
    _holdfast("locks", "redis", module="holdfast_locks", latency=0, locks=15_000),
    _floor("locks", "floor_locks", "redis", latency=0, locks=15_000),
    _peer("redis-py", "redis_py", "redis", latency=0, locks=15_000),
    _peer("pottery", "pottery", "redis", latency=0, locks=3_000),
    _holdfast("kv", "memory", module="holdfast_kv", latency=0, kv=1_500_000),
    _peer("fakeredis", "fakeredis", "memory", latency=0, kv=60_000),
    _holdfast("live", "sqlite", module="holdfast_live", latency=0, fanout=2_000, watched=200,
              resume=1_000, behind=100_000, idle_watchers=20),
    _floor("live", "floor_live", "memory", latency=0, fanout=2_000, watched=200),
    # An emit of python-socketio waits for the client that reads nothing, so it has no fanout_latency.
    _peer("socketio", "socketio", "memory", latency=0, fanout=500),
    _holdfast("rest", "postgres", module="holdfast_live", latency=0, rest=10_000),
    _floor("rest", "floor_rest", "postgres", latency=0, rest=10_000),
    _holdfast("deltas", "sqlite", module="holdfast_deltas", latency=0, deltas=40_000),
    _holdfast("deltas-pg", "postgres", module="holdfast_deltas", latency=0, deltas=40_000),
    _holdfast("remote", "sqlite", module="holdfast_remote", latency=0, drain=60_000),
    _holdfast("remote-pg", "postgres", module="holdfast_remote", latency=0, drain=60_000),
    _floor("deltas", "floor_deltas", "memory", latency=0, deltas=40_000),
    _holdfast("fleet", "sqlite", module="holdfast_fleet", latency=0, fleet=1_000, webhook=500,
              idle_agents=30),
    _holdfast("fleet-pg", "postgres", module="holdfast_fleet", latency=0, fleet=10_000),
    _holdfast("targets", "sqlite", module="holdfast_targets", latency=0, targets=100),
    _peer("clustershell", "clustershell", "memory", latency=0, targets=100),
    _peer("pyinfra", "pyinfra", "memory", latency=0, targets=100),
    _peer("oban", "oban", "postgres", skip="oban 0.7 needs Python 3.12 or newer"),
)  # fmt: skip
