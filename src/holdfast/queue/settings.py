"""The settings of a queue, validated by the constructor. Durations are in seconds."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.core.affinity import AFFINITY_SECONDS
from holdfast.core.check import check_id, check_number, check_whole, shown, unknown_name
from holdfast.core.intervention import FALLBACK_SECONDS
from holdfast.core.pressure import DepthBounds
from holdfast.core.retention import HubRetention
from holdfast.core.submit import ATTEMPTS_MAX
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.core.wire import check_project
from holdfast.engine.handlers import Defaults
from holdfast.engine.pruning import Retention
from holdfast.errors import BadConfig

WORKERS_MAX: Final = 10_000
DEPTH_MAX: Final = 10**15
FOREVER_SECONDS: Final = 1e12


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See docs/reference/settings.md."""

    max_workers: int = 10
    min_workers: int = 1
    default_max_attempts: int = 3
    base_retry_delay: float = 1.0
    max_retry_delay: float = 60.0
    task_timeout: float | None = 30.0
    shutdown_timeout: float = 30.0
    lease_seconds: float = 9.0
    max_deaths: int = 3
    ageing_seconds: float = 60.0
    queues: tuple[str, ...] | None = None
    max_depth: int | None = 10_000_000
    max_age: float | None = None
    keep_done: float = 7 * 86_400.0
    keep_dead: float = 90 * 86_400.0
    keep_events: float = 7 * 86_400.0
    keep_conflicts: float = 90 * 86_400.0
    keep_sync_log: float = 7 * 86_400.0
    keep_tombstones: float = 30 * 86_400.0
    keep_mutations: float = 30 * 86_400.0
    keep_output: float = 7 * 86_400.0
    keep_audit: float | None = None
    decision_deadline: float | None = None
    progress_timeout: float | None = None
    affinity_seconds: float = AFFINITY_SECONDS
    reassign_fallback_seconds: float = FALLBACK_SECONDS
    project: str = DEFAULT_PROJECT
    """The project of tasks that are enqueued without one."""
    projects: tuple[str, ...] | None = None
    """The projects whose tasks this process runs. None: of all."""

    def __post_init__(self) -> None:
        for name in ("max_workers", "min_workers"):
            _whole(name, getattr(self, name), WORKERS_MAX)
        for name in ("default_max_attempts", "max_deaths"):
            _whole(name, getattr(self, name), ATTEMPTS_MAX)
        for name, least in (
            *(("base_retry_delay", 0), ("max_retry_delay", 0), ("shutdown_timeout", 0)),
            *(("ageing_seconds", 0), ("keep_done", 0), ("keep_dead", 0), ("keep_events", 0)),
            *(("keep_conflicts", 0), ("keep_sync_log", 0), ("keep_tombstones", 0)),
            *(("keep_mutations", 0), ("keep_output", 0)),
            *(("affinity_seconds", 0), ("reassign_fallback_seconds", 0)),
            ("lease_seconds", 0.1),
        ):
            _seconds(name, getattr(self, name), least)
        for name, least in (
            *(("task_timeout", 0.001), ("max_age", 0), ("keep_audit", 0)),
            *(("decision_deadline", 0.001), ("progress_timeout", 0.001)),
        ):
            if (value := getattr(self, name)) is not None:
                _seconds(name, value, least)
        if self.max_depth is not None:
            _whole("max_depth", self.max_depth, DEPTH_MAX)
        check_project("project", self.project, wrong=BadConfig)
        if self.queues is not None:
            _check_queues(self.queues)
        if self.projects is not None:
            _check_projects(self.projects)
        if self.min_workers > self.max_workers:
            raise BadConfig(
                f"min_workers is {self.min_workers}, more than max_workers ({self.max_workers}): "
                "raise max_workers or lower min_workers"
            )

    @property
    def defaults(self) -> Defaults:
        """The defaults for types that do not set these options."""
        return Defaults(
            max_attempts=self.default_max_attempts,
            retry_base_seconds=self.base_retry_delay,
            retry_cap_seconds=self.max_retry_delay,
            max_deaths=self.max_deaths,
        )

    @property
    def bounds(self) -> DepthBounds:
        return DepthBounds(depth_max=self.max_depth, oldest_seconds_max=self.max_age)

    @property
    def retention(self) -> Retention:
        hub = HubRetention(
            self.keep_sync_log,
            self.keep_tombstones,
            self.keep_mutations,
            self.keep_output,
            self.keep_audit,
        )
        return Retention(self.keep_done, self.keep_dead, self.keep_events, self.keep_conflicts, hub)

    def changed(self, changes: dict[str, object]) -> Settings:
        """Returns a copy with some settings replaced. Raises BadConfig for an unknown name."""
        names = set(self.__struct_fields__)
        unknown = sorted(set(changes) - names)
        if unknown:
            raise BadConfig(unknown_name("unknown setting", unknown[0], sorted(names)))
        return replace(self, **changes)


class SettingsInForce:
    """The current settings of a queue. A start may change them."""

    __slots__ = ("current",)

    def __init__(self, settings: Settings) -> None:
        self.current = settings


def _whole(name: str, value: object, most: int) -> None:
    check_whole(name, value, least=1, most=most, wrong=BadConfig)


def _seconds(name: str, value: object, least: float) -> None:
    check_number(name, value, least=least, most=FOREVER_SECONDS, wrong=BadConfig)


def _check_queues(queues: object) -> None:
    if not isinstance(queues, tuple | list) or not queues:
        raise BadConfig(
            f"queues is {shown(queues)}: pass a tuple of names, or omit it to serve those of the handlers"
        )
    for name in queues:
        check_id("a name in queues", name, wrong=BadConfig)


def _check_projects(projects: object) -> None:
    if not isinstance(projects, tuple | list) or not projects:
        raise BadConfig(
            f"projects is {shown(projects)}: pass a tuple of names, or omit it to serve all projects"
        )
    for name in projects:
        check_project("a name in projects", name, wrong=BadConfig)
