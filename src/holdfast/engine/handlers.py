"""Handlers: the function of a type, and how it is called.

Promises: each queue has its own registry; there is no global one. Async functions run in the event loop,
plain functions in threads, and functions with `isolation="process"` in processes that can be killed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from copy import copy
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec.structs import asdict, replace

from holdfast.core.callables import check_one_value, is_async, signature_of
from holdfast.core.check import check_id, check_number, check_positive, check_whole, shown
from holdfast.core.choice_schema import check_schema
from holdfast.core.codec import dumps
from holdfast.core.limit import LIMIT_MAX, LimitRule
from holdfast.core.submit import ATTEMPTS_MAX
from holdfast.core.tags import check_tags
from holdfast.core.task import Priority
from holdfast.core.unique import Unique
from holdfast.engine.argument_schema import SCHEMA_BYTES_MAX, schema_of
from holdfast.engine.arguments import declared_result
from holdfast.engine.around import Around
from holdfast.engine.declared import Declared
from holdfast.engine.parameters import Parameters, parameters_of
from holdfast.engine.retry_choice import RetryChoice
from holdfast.errors import BadConfig, InvalidInput


class Isolation(StrEnum):
    """Where a handler runs."""

    LOOP = "loop"
    THREAD = "thread"
    PROCESS = "process"


# For code that runs once per task: in Python 3.11 an enum member costs twenty times as much as a name.
IN_LOOP: Final = Isolation.LOOP
IN_THREAD: Final = Isolation.THREAD


class Reject(Exception):
    """Raise this in a handler when the task can never succeed. It is not tried again."""


class TypeConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """The options of a type's tasks, unless the caller gives others. All nodes read them from the store. For
    None the setting of the queue applies."""

    queue: str = "default"
    priority: Priority = Priority.NORMAL
    max_attempts: int | None = None
    timeout_seconds: float | None = None
    retry_base_seconds: float | None = None
    retry_cap_seconds: float | None = None
    max_deaths: int | None = None
    progress_timeout_seconds: float | None = None
    limit: LimitRule | None = None
    """For the whole type."""
    key_limit: LimitRule | None = None
    """For each key separately."""
    fair: bool = False
    """Whether the keys take turns."""
    unique: Unique | None = None
    """The window in which no other task of the same arguments is enqueued."""
    tags: tuple[str, ...] = ()
    """Tags of all tasks of the type."""
    keep_done_seconds: float | None = None
    """How long a task is kept after it was completed or aborted."""
    arguments: dict[str, Any] | None = None
    """The schema of the arguments (`argument_schema.py`). None: the handler takes the task."""


def check_type_config(config: TypeConfig) -> None:
    """InvalidInput for a configuration that `@queue.task` would refuse. For one that came over the wire."""
    check_id("queue", config.queue)
    for name in ("max_attempts", "max_deaths"):
        count = getattr(config, name)
        if count is not None:
            check_whole(name, count, least=1, most=ATTEMPTS_MAX)
    for name in ("timeout_seconds", "retry_base_seconds", "retry_cap_seconds", "keep_done_seconds"):
        seconds = getattr(config, name)
        if seconds is not None:
            check_number(name, seconds)
    if config.progress_timeout_seconds is not None:
        check_positive("progress_timeout_seconds", config.progress_timeout_seconds)
    check_tags(config.tags)
    if config.arguments is not None:
        check_schema(config.arguments)
        if len(dumps(config.arguments)) > SCHEMA_BYTES_MAX:
            raise InvalidInput(
                f"the schema of the arguments is longer than {SCHEMA_BYTES_MAX} bytes"
            )
    for rule in (config.limit, config.key_limit):
        if rule is None:
            continue
        for name in ("max_running", "rate_count", "burst"):
            count = getattr(rule, name)
            if count is not None:
                check_whole(name, count, least=1, most=LIMIT_MAX)
        check_positive("rate_seconds", rule.rate_seconds)


class Defaults(msgspec.Struct, frozen=True):
    """The queue's settings for options that a type does not set."""

    max_attempts: int = 3
    retry_base_seconds: float = 1.0
    retry_cap_seconds: float = 60.0
    max_deaths: int = 3


def resolved(config: TypeConfig, defaults: Defaults) -> TypeConfig:
    """The configuration with all defaults filled in, as producers in other processes need it."""
    options = {
        name: value
        for name in Defaults.__struct_fields__
        if (value := getattr(config, name)) is not None
    }
    return replace(config, **(asdict(defaults) | options))


class Handler(msgspec.Struct, frozen=True):
    """A function bound to a type."""

    type: str
    function: Callable[..., Any]
    isolation: Isolation
    config: TypeConfig
    parameters: Parameters | None = None
    """What the function takes from the payload, whose fields are its arguments. Read once, because every
    enqueue needs it. None: the argument is the task."""
    wants_context: bool = False
    result: Declared | None = None
    """The type of the result, if it needs a conversion."""
    retries: RetryChoice | None = None
    """Which errors are tried again. None: all."""

    @property
    def by_keyword(self) -> bool:
        return self.parameters is not None

    @property
    def takes_context(self) -> bool:
        named = self.parameters is not None and self.parameters.context_name is not None
        return self.wants_context or named


class Handlers:
    """The handlers of one queue."""

    def __init__(self) -> None:
        self._by_type: dict[str, Handler] = {}
        self.get: Callable[[str], Handler | None] = self._by_type.get
        self._types: tuple[str, ...] = ()
        self._queues: tuple[str, ...] = ()
        self.around = Around()

    def add_middleware(self, function: Callable[..., Any]) -> None:
        """Adds middleware around all handlers. BadConfig if a process of one could not import it."""
        around = copy(self.around)
        around.add(function)
        if any(handler.isolation is Isolation.PROCESS for handler in self):
            around.paths()
        self.around = around

    def add(self, handler: Handler) -> None:
        """Registers a handler. A type has one function. The same function may be registered again with other
        options, and so may a function of the same name and module, for a module that was reloaded."""
        check_id("type", handler.type, wrong=BadConfig)
        if handler.isolation is Isolation.PROCESS:
            self.around.paths()
        before = self._by_type.get(handler.type)
        if before is not None and not _is_same(before.function, handler.function):
            raise BadConfig(
                f"type '{handler.type}' is handled by {_full_name(before.function)} already, so "
                f"{_full_name(handler.function)} cannot have it: give one of them another name"
            )
        self._by_type[handler.type] = handler
        self._types = tuple(sorted(self._by_type))
        self._queues = tuple(sorted({registered.config.queue for registered in self}))

    def result_of(self, type_name: str) -> Declared | None:
        """The type of the result of a task type. None: its handler is in another process, or its result is
        JSON."""
        handler = self.get(type_name)
        return None if handler is None else handler.result

    def types(self) -> tuple[str, ...]:
        return self._types

    def queues(self) -> tuple[str, ...]:
        return self._queues

    def __contains__(self, type_name: object) -> bool:
        return type_name in self._by_type

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._by_type.values())

    def __len__(self) -> int:
        return len(self._by_type)


def for_task(
    task_type: str, function: Callable[..., Any], config: TypeConfig, isolation: str | None = None
) -> Handler:
    """A handler that takes the task, and the context if it has two parameters."""
    signature = _signature(task_type, function)
    parameters = signature.parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return _importable(
        Handler(
            task_type,
            function,
            _isolation(function, isolation),
            config,
            wants_context=len(positional) >= 2,
        )
    )


def for_arguments(
    task_type: str, function: Callable[..., Any], config: TypeConfig, isolation: str | None = None
) -> Handler:
    """A handler whose arguments are the fields of the payload."""
    signature = _signature(task_type, function)
    _check_no_method(task_type, function, signature)
    parameters = parameters_of(task_type, function, signature)
    return _importable(
        Handler(
            task_type,
            function,
            _isolation(function, isolation),
            replace(config, arguments=schema_of(function, parameters)),
            parameters,
            parameters.context_name is not None,
            declared_result(function, signature.return_annotation),
        )
    )


def import_path(handler: Handler) -> tuple[str, str]:
    """The module and name by which another process imports the function. BadConfig if it cannot."""
    name = str(getattr(handler.function, "__qualname__", ""))
    module = getattr(handler.function, "__module__", "")
    if not name or "<" in name or not module or inspect.ismethod(handler.function):
        raise BadConfig(
            f"the handler of '{handler.type}' runs in a process, so it must be a function at the top "
            f"level of a module, not {_full_name(handler.function)}"
        )
    return module, name


def _importable(handler: Handler) -> Handler:
    if handler.isolation is Isolation.PROCESS:
        import_path(handler)
    return handler


def _signature(task_type: str, function: Callable[..., Any]) -> inspect.Signature:
    check_one_value("a handler", function)
    try:
        return signature_of(function)
    except (TypeError, ValueError) as error:
        raise BadConfig(
            f"the parameters of {_full_name(function)} cannot be read: {error}"
        ) from None


def _check_no_method(
    task_type: str, function: Callable[..., Any], signature: inspect.Signature
) -> None:
    """BadConfig for a function in the body of a class: nothing gives it its object."""
    scope = str(getattr(function, "__qualname__", "")).rpartition("<locals>.")[2]
    first = next(iter(signature.parameters), None)
    if "." in scope and first in ("self", "cls") and not inspect.ismethod(function):
        raise BadConfig(
            f"task '{task_type}' is a method, and the worker has no object to call it on: make it a "
            f"function, and pass what it needs of '{first}' as arguments"
        )


def _is_same(before: Callable[..., Any], function: Callable[..., Any]) -> bool:
    """Whether both are the same function, or the same name in a module that was reloaded."""
    if before is function or before == function:
        return True
    name = _full_name(function)
    return name == _full_name(before) and "<" not in name


def _full_name(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", None)
    return f"{function.__module__}.{name}" if name else f"<{type(function).__name__}>"


def _isolation(function: Callable[..., Any], name: str | None) -> Isolation:
    awaited = is_async(function)
    if name is None:
        return Isolation.LOOP if awaited else Isolation.THREAD
    try:
        isolation = Isolation(name)
    except ValueError:
        names = ", ".join(member.value for member in Isolation)
        raise BadConfig(f"isolation {shown(name)} is not known: use one of {names}") from None
    if isolation is Isolation.LOOP and not awaited:
        raise BadConfig(
            "isolation 'loop' needs an async function: a plain one would block all others"
        )
    if isolation is Isolation.THREAD and awaited:
        raise BadConfig("isolation 'thread' needs a plain function: an async one runs in the loop")
    return isolation
