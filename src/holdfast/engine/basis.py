"""What an engine is built on: its settings, and what its caller provides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from holdfast.bus.port import Bus
from holdfast.clock import Clock
from holdfast.core.priority import AGEING_SECONDS
from holdfast.core.schedule import Schedule
from holdfast.core.submit import Submission
from holdfast.core.task import Task
from holdfast.engine.follow_ups import NO_FOLLOW_UPS, FollowUps
from holdfast.engine.handlers import Defaults, Handlers
from holdfast.engine.pruning import Retention
from holdfast.engine.worker_hooks import WorkerState
from holdfast.errors import EngineFailed
from holdfast.metrics import Meter
from holdfast.store.store import Store


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of an engine."""

    node: str
    min_workers: int = 1
    max_workers: int = 10
    lease_seconds: float = 9.0
    task_timeout: float | None = 30.0
    decision_deadline: float | None = None
    """The deadline of a question that has none, in seconds."""
    shutdown_timeout: float = 30.0
    ageing_seconds: float = AGEING_SECONDS
    queues: tuple[str, ...] | None = None
    projects: tuple[str, ...] | None = None
    """The projects whose tasks run here. None: all."""
    retention: Retention = Retention()
    defaults: Defaults = Defaults()


@dataclass(frozen=True, kw_only=True, slots=True)
class Basis:
    """What the caller of an engine provides. The store and the bus are open."""

    config: EngineConfig
    clock: Clock
    store: Store
    """The store of callers. Loops and runners get reserved connections."""
    bus: Bus
    handlers: Handlers
    make_scheduled: Callable[[Schedule, float], Awaitable[Submission]]
    on_ended: Callable[[list[Task]], None]
    on_failed: Callable[[EngineFailed], None]
    code_schedules: Callable[[], Sequence[Schedule]] = tuple
    meter: Meter | None = None
    follow_ups: FollowUps = NO_FOLLOW_UPS
    state: WorkerState = field(default_factory=WorkerState)
    """What the start hooks gave, for handlers."""
