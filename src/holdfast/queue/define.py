"""The options of a task type, and their checks.

Promises: `@queue.task` and `register_handler` take the same options. A bad option raises BadConfig, which
names it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal, TypedDict

from msgspec.structs import replace

from holdfast.core import limit as limits, priority as priorities
from holdfast.core.check import (
    check_id,
    check_name,
    check_whole,
    shown,
    unknown_name,
)
from holdfast.core.keywords import PriorityName, Tags
from holdfast.core.limit import LIMIT_MAX, LimitRule
from holdfast.core.schedule import CODE, Schedule, check_timetable, spec_of
from holdfast.core.seconds import Seconds, check_seconds, check_span
from holdfast.core.submit import ATTEMPTS_MAX, encode_payload
from holdfast.core.tags import check_tags
from holdfast.core.task import Priority
from holdfast.core.unique import Unique, check_chosen
from holdfast.engine.handlers import Handler, Handlers, Isolation, TypeConfig
from holdfast.engine.retry_choice import RetryDelay, check_portable, retry_choice
from holdfast.engine.worker_hooks import WorkerHooks
from holdfast.errors import BadConfig
from holdfast.queue.types import check_unique, timeout_in


class TypeOptions(TypedDict, total=False):
    """All options are optional."""

    # The string below an option is its row in docs/reference/queue.md: 'default: meaning'.
    queue: str
    """`default`: the queue of the tasks. Workers choose queues with `--queues`."""
    priority: Priority | PriorityName
    """`normal`: `critical`, `high`, `normal` or `low`."""
    max_attempts: int | None
    """setting `default_max_attempts` (3): runs before a failing task becomes a dead letter."""
    timeout: Seconds | None
    """setting `task_timeout` (30): seconds of one run, or a timedelta. `None` disables the timeout."""
    retry_delay: Seconds | RetryDelay | None
    """setting `base_retry_delay` (1): the pause before the first retry, which doubles with each failure. Or a
    function `(attempt, error) -> pause` that gives each pause; `None` from it: the usual one."""
    max_retry_delay: Seconds | None
    """setting `max_retry_delay` (60): the longest of these pauses before a retry."""
    retry_on: type[BaseException] | tuple[type[BaseException], ...] | None
    """none: the only errors that are tried again. Any other makes a dead letter at once."""
    give_up_on: type[BaseException] | tuple[type[BaseException], ...] | None
    """none: errors that make a dead letter at once."""
    max_deaths: int | None
    """setting `max_deaths` (3): runs that end with their worker before the task becomes a dead letter."""
    progress_timeout: Seconds | None
    """setting `progress_timeout` (none): how long a run may go without progress before the task is stuck."""
    rate: str | None
    """none: starts of the type in all processes, `count/window`: `5/s`, `100/m`, `10/30s`."""
    concurrency: int | None
    """none: tasks of the type that run at once, in all processes."""
    key_rate: str | None
    """none: as `rate`, for each `key` of an enqueue separately."""
    key_concurrency: int | None
    """none: as `concurrency`, for each `key` separately."""
    fair: bool
    """`False`: whether the tasks of different `key`s take turns (docs/howto/fairness.md)."""
    burst: int
    """1: starts that a rate allows at once after a pause. Needs `rate` or `key_rate`."""
    unique: Unique | None
    """none: the window in which an enqueue with the same arguments gets the task that is there."""
    tags: Tags
    """none: names by which lists find the tasks of the type (`tag:vip`). Those of an enqueue are added."""
    keep_done: Seconds | None
    """setting `keep_done` (7 days): how long completed and aborted tasks of the type are kept."""
    isolation: Literal["loop", "thread", "process"] | None
    """`loop` for an async function, `thread` for a plain one: `process` runs it in a process that a timeout
    kills."""
    cron: str | timedelta | None
    """none: when to enqueue the task, without arguments (docs/howto/schedules.md). A timedelta: after each
    such time."""
    timezone: str
    """`UTC`: the time zone of `cron`, e.g. `Europe/Prague`."""


class Definitions:
    """The handlers of a queue, the schedules of handlers that are defined with `cron`, and the hooks of its
    workers."""

    __slots__ = ("handlers", "hooks", "schedules")

    def __init__(self) -> None:
        self.handlers = Handlers()
        self.hooks = WorkerHooks()
        self.schedules: list[Schedule] = []

    def add(self, handler: Handler, options: TypeOptions) -> None:
        """Adds the handler and its schedule. If it raises, it has added neither."""
        cron, timezone = options.get("cron"), options.get("timezone", "UTC")
        schedule = None if cron is None else schedule_of(handler, spec_of(cron), timezone)
        retries = retry_choice(options)
        names = None if handler.parameters is None else handler.parameters.names
        check_chosen(handler.config.unique, handler.type, names, BadConfig)
        if handler.isolation is Isolation.PROCESS:
            check_portable(handler.type, retries)
        self.handlers.add(replace(handler, retries=retries))
        self.schedules = [other for other in self.schedules if other.name != handler.type]
        if schedule is not None:
            self.schedules.append(schedule)


def type_config(options: TypeOptions) -> TypeConfig:
    """Checks the options and returns the configuration of the type."""
    unknown = sorted(options.keys() - TypeOptions.__annotations__.keys(), key=str)
    if unknown:
        names = tuple(TypeOptions.__annotations__)
        raise BadConfig(unknown_name("a task type has no option", unknown[0], names))
    retry_choice(options)
    cron = options.get("cron")
    check_timetable("@every 1" if cron is None else spec_of(cron), options.get("timezone", "UTC"))
    if "burst" in options and options.get("rate") is None and options.get("key_rate") is None:
        raise BadConfig("burst has no effect without a rate: give rate or key_rate too")
    burst = check_whole("burst", options.get("burst", 1), least=1, most=LIMIT_MAX, wrong=BadConfig)
    return TypeConfig(
        queue=check_id("queue", options.get("queue", "default"), wrong=BadConfig),
        priority=priorities.named(options.get("priority", Priority.NORMAL)),
        max_attempts=_whole(options, "max_attempts", ATTEMPTS_MAX),
        timeout_seconds=timeout_in(options["timeout"], wrong=BadConfig)
        if "timeout" in options
        else None,
        retry_base_seconds=None
        if callable(options.get("retry_delay"))
        else _seconds(options, "retry_delay"),
        retry_cap_seconds=_seconds(options, "max_retry_delay"),
        max_deaths=_whole(options, "max_deaths", ATTEMPTS_MAX),
        progress_timeout_seconds=_positive(options, "progress_timeout"),
        unique=check_unique(options.get("unique"), wrong=BadConfig),
        tags=check_tags(options.get("tags"), wrong=BadConfig),
        keep_done_seconds=_seconds(options, "keep_done"),
        limit=rule(options.get("rate"), _whole(options, "concurrency", LIMIT_MAX), burst),
        key_limit=rule(
            options.get("key_rate"), _whole(options, "key_concurrency", LIMIT_MAX), burst
        ),
        fair=_flag(options, "fair"),
    )


def rule(rate: str | None, concurrency: int | None, burst: int) -> LimitRule | None:
    """Parses a limit, e.g. rate='100/m' and concurrency=4. Returns None if both are None."""
    if rate is None and concurrency is None:
        return None
    count, seconds = None, 1.0
    if rate is not None:
        try:
            count, seconds = limits.parse_rate(check_name("rate", rate, wrong=BadConfig))
        except ValueError as error:
            raise BadConfig(str(error)) from None
    return LimitRule(max_running=concurrency, rate_count=count, rate_seconds=seconds, burst=burst)


def schedule_of(handler: Handler, cron: str, timezone: str) -> Schedule:
    """Returns the schedule of a type that is defined with `cron`. The code owns it."""
    if handler.parameters is not None and handler.parameters.required:
        names = ", ".join(sorted(handler.parameters.required))
        raise BadConfig(
            f"task '{handler.type}' has a cron, which calls it without arguments, but needs {names}: give "
            "them defaults, or add a schedule with a payload (queue.schedule)"
        )
    config = handler.config
    return Schedule(
        handler.type,
        handler.type,
        config.queue,
        cron,
        timezone,
        encode_payload({}),
        int(config.priority),
        0.0,
        owner=CODE,
    )


def _whole(options: Any, name: str, most: int) -> int | None:
    value = options.get(name)
    return None if value is None else check_whole(name, value, least=1, most=most, wrong=BadConfig)


def _flag(options: Any, name: str) -> bool:
    value = options.get(name, False)
    if not isinstance(value, bool):
        raise BadConfig(f"{name} is {shown(value)}: give True or False")
    return value


def _positive(options: Any, name: str) -> float | None:
    value = options.get(name)
    return None if value is None else check_span(name, value, wrong=BadConfig)


def _seconds(options: Any, name: str) -> float | None:
    value = options.get(name)
    return None if value is None else check_seconds(name, value, wrong=BadConfig)
