"""The settings of a queue, validated when it is made. Durations are in seconds."""

from __future__ import annotations

import math

import msgspec
from msgspec.structs import replace

from holdfast.core.pressure import Bounds
from holdfast.engine.handlers import Defaults
from holdfast.engine.sweeper import Retention
from holdfast.errors import BadConfig


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

    def __post_init__(self) -> None:
        for name in ("max_workers", "min_workers", "default_max_attempts", "max_deaths"):
            check_number(name, getattr(self, name), at_least=1, whole=True)
        for name in (
            *("base_retry_delay", "max_retry_delay", "shutdown_timeout", "ageing_seconds"),
            *("keep_done", "keep_dead", "keep_events"),
        ):
            check_number(name, getattr(self, name), at_least=0)
        check_number("lease_seconds", self.lease_seconds, at_least=0.1)
        for name, least in (("task_timeout", 0.001), ("max_depth", 1), ("max_age", 0)):
            if (value := getattr(self, name)) is not None:
                check_number(name, value, at_least=least)
        queues: object = self.queues
        if isinstance(queues, str):
            raise BadConfig(f"queues is the text '{queues}': give a tuple of names")
        if self.min_workers > self.max_workers:
            raise BadConfig(
                f"min_workers is {self.min_workers}, more than max_workers ({self.max_workers}): "
                "raise max_workers or lower min_workers"
            )

    @property
    def defaults(self) -> Defaults:
        """For types that do not say."""
        return Defaults(
            max_attempts=self.default_max_attempts,
            retry_base_seconds=self.base_retry_delay,
            retry_cap_seconds=self.max_retry_delay,
            max_deaths=self.max_deaths,
        )

    @property
    def bounds(self) -> Bounds:
        return Bounds(depth_max=self.max_depth, oldest_seconds_max=self.max_age)

    @property
    def retention(self) -> Retention:
        return Retention(self.keep_done, self.keep_dead, self.keep_events)

    def changed(self, changes: dict[str, object]) -> Settings:
        """With some settings given anew; unknown names are refused."""
        known = set(self.__struct_fields__)
        unknown = sorted(set(changes) - known)
        if unknown:
            raise BadConfig(
                f"unknown setting '{unknown[0]}': the settings are {', '.join(sorted(known))}"
            )
        return replace(self, **changes)


def check_number(name: str, value: object, *, at_least: float, whole: bool = False) -> None:
    """BadConfig unless it is a number of that size."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise BadConfig(f"{name} is {value!r}: it must be a number")
    if value < at_least or (whole and value != int(value)):
        kind = "a whole number, " if whole else ""
        raise BadConfig(f"{name} is {value}: it must be {kind}at least {at_least:g}")
