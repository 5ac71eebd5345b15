"""Handlers: what runs for a type, and how it is called.

Promises: one registry for each queue, none global. Async functions run in the event loop, plain ones in
threads, and with `isolation="process"` in processes that can be killed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec.structs import asdict, replace

from holdfast.core.check import check_id, shown
from holdfast.core.limit import LimitRule
from holdfast.core.task import Priority
from holdfast.errors import BadConfig, InvalidInput

CONTEXT_NAMES = ("ctx", "context")


class Isolation(StrEnum):
    """Where a handler runs."""

    LOOP = "loop"
    THREAD = "thread"
    PROCESS = "process"


# For what runs once per task: in Python 3.11 a member costs twenty times as much as a name.
IN_LOOP: Final = Isolation.LOOP
IN_THREAD: Final = Isolation.THREAD


class Reject(Exception):
    """Raised by a handler: this task can never succeed, do not try again."""


class TypeConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """How tasks of a type are made, unless the caller says otherwise. Known to all through the store.
    None leaves it to the queue's settings."""

    queue: str = "default"
    priority: Priority = Priority.NORMAL
    max_attempts: int | None = None
    timeout_seconds: float | None = None
    retry_base_seconds: float | None = None
    retry_cap_seconds: float | None = None
    max_deaths: int | None = None
    limit: LimitRule | None = None
    """For the whole type."""
    key_limit: LimitRule | None = None
    """For each key on its own."""


class Defaults(msgspec.Struct, frozen=True):
    """What a queue's settings say for types that do not."""

    max_attempts: int = 3
    retry_base_seconds: float = 1.0
    retry_cap_seconds: float = 60.0
    max_deaths: int = 3


def resolved(config: TypeConfig, defaults: Defaults) -> TypeConfig:
    """With nothing left open, as a producer elsewhere must see it."""
    given = {
        name: value
        for name in Defaults.__struct_fields__
        if (value := getattr(config, name)) is not None
    }
    return replace(config, **(asdict(defaults) | given))


class Handler(msgspec.Struct, frozen=True):
    """A function bound to a type."""

    type: str
    function: Callable[..., Any]
    signature: inspect.Signature
    """Read once: it is needed with every enqueue."""
    isolation: Isolation
    config: TypeConfig
    by_keyword: bool = False
    """True: the payload's fields are its arguments. False: it gets the task."""
    wants_context: bool = False
    context_name: str | None = None


class Handlers:
    """The handlers of one queue."""

    def __init__(self) -> None:
        self._by_type: dict[str, Handler] = {}
        self.get: Callable[[str], Handler | None] = self._by_type.get
        self._types: tuple[str, ...] = ()
        self._queues: tuple[str, ...] = ()

    def add(self, handler: Handler) -> None:
        """A type has one function. The same function may come again, with other options; so may the
        function of the same name in the same module, which is that module loaded again."""
        check_id("type", handler.type, wrong=BadConfig)
        before = self._by_type.get(handler.type)
        if before is not None and not _is_same(before.function, handler.function):
            raise BadConfig(
                f"type '{handler.type}' is handled by {_place(before.function)} already, so "
                f"{_place(handler.function)} cannot have it: give one of them another name"
            )
        self._by_type[handler.type] = handler
        self._types = tuple(sorted(self._by_type))
        self._queues = tuple(sorted({each.config.queue for each in self}))

    def types(self) -> tuple[str, ...]:
        return self._types

    def queues(self) -> tuple[str, ...]:
        return self._queues

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._by_type.values())

    def __len__(self) -> int:
        return len(self._by_type)


def for_task(
    task_type: str, function: Callable[..., Any], config: TypeConfig, isolation: str | None = None
) -> Handler:
    """A handler that gets the task, and the context when it takes two arguments."""
    signature = _signature(task_type, function)
    parameters = signature.parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return _importable(
        Handler(
            task_type,
            function,
            signature,
            _isolation(function, isolation),
            config,
            False,
            len(positional) >= 2,
        )
    )


def for_arguments(
    task_type: str, function: Callable[..., Any], config: TypeConfig, isolation: str | None = None
) -> Handler:
    """A handler whose arguments are the payload; a parameter named `ctx` gets the context."""
    signature = _signature(task_type, function)
    parameters = signature.parameters.values()
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise BadConfig(
                f"task '{task_type}': parameter '{parameter.name}' cannot be given by name; "
                "use ordinary or keyword parameters"
            )
    context = next((p.name for p in parameters if p.name in CONTEXT_NAMES), None)
    return _importable(
        Handler(
            task_type,
            function,
            signature,
            _isolation(function, isolation),
            config,
            True,
            context is not None,
            context,
        )
    )


def place_of(handler: Handler) -> tuple[str, str]:
    """Where another process finds the function: module and name. BadConfig when it cannot."""
    name = str(getattr(handler.function, "__qualname__", ""))
    module = getattr(handler.function, "__module__", "")
    if not name or "<" in name or not module or inspect.ismethod(handler.function):
        raise BadConfig(
            f"the handler of '{handler.type}' runs in a process, so it must be a function at the top "
            f"level of a module, not {_place(handler.function)}"
        )
    return module, name


def _importable(handler: Handler) -> Handler:
    if handler.isolation is Isolation.PROCESS:
        place_of(handler)
    return handler


def _signature(task_type: str, function: Callable[..., Any]) -> inspect.Signature:
    if not callable(function):
        raise InvalidInput(
            f"the handler of {shown(task_type)} is a {type(function).__name__}, not a function"
        )
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise BadConfig(f"the parameters of {_place(function)} cannot be read: {error}") from None


def _is_same(before: Callable[..., Any], function: Callable[..., Any]) -> bool:
    """Whether it is one function, or that of a module that was loaded again."""
    if before is function or before == function:
        return True
    place = _place(function)
    return place == _place(before) and "<" not in place


def _place(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", None)
    return f"{function.__module__}.{name}" if name else f"<{type(function).__name__}>"


def bind_payload(handler: Handler, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The payload that calls the function with these arguments later."""
    if handler.context_name is not None:
        kwargs = {**kwargs, handler.context_name: None}
    try:
        bound = handler.signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InvalidInput(f"task '{handler.type}' cannot be called like this: {error}") from None
    payload: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        if parameter.kind is parameter.VAR_KEYWORD:
            payload.update(value)
        elif name != handler.context_name:
            payload[name] = value
    return payload


def _isolation(function: Callable[..., Any], wanted: str | None) -> Isolation:
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - objects with an async __call__
    )
    if wanted is None:
        return Isolation.LOOP if is_async else Isolation.THREAD
    try:
        isolation = Isolation(wanted)
    except ValueError:
        names = ", ".join(each.value for each in Isolation)
        raise BadConfig(f"isolation {shown(wanted)} is not known: use one of {names}") from None
    if isolation is Isolation.LOOP and not is_async:
        raise BadConfig(
            "isolation 'loop' needs an async function: a plain one would block all others"
        )
    if isolation is Isolation.THREAD and is_async:
        raise BadConfig("isolation 'thread' needs a plain function: an async one runs in the loop")
    return isolation
