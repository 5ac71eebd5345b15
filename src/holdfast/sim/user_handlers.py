"""Runs a user's handlers in the simulator.

Promises: async handlers run unchanged in virtual time, on several nodes, under faults; results and errors
take the same path as in production. Never: touches the user's database; a handler that enqueues through the
module's queue gets an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.task import Task
from holdfast.engine.context import Context
from holdfast.engine.execute import invoke
from holdfast.engine.handlers import Handler, Handlers, Isolation
from holdfast.errors import BadConfig, NotRunning
from holdfast.queue.queue import Queue


class UserHandlers(msgspec.Struct, frozen=True):
    """The handlers of a queue and the payloads for their tasks."""

    handlers: tuple[Handler, ...]
    payloads: Mapping[str, Sequence[object]]

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(sorted(handler.type for handler in self.handlers))


def handlers_of(queue: Queue, payloads: Mapping[str, Sequence[object]]) -> UserHandlers:
    """The handlers of the types with payloads, or all handlers if there are no payloads. Raises BadConfig for
    a handler that cannot be simulated, with the reason."""
    registered = queue.definitions.handlers
    if unknown := sorted(payloads.keys() - registered.types()):
        raise BadConfig(
            f"there are payloads for '{unknown[0]}', which has no handler: check the name"
        )
    handlers = tuple(handler for handler in registered if not payloads or handler.type in payloads)
    if not handlers:
        raise BadConfig("the queue has no handlers: register them before simulating")
    for handler in handlers:
        if handler.isolation is not Isolation.LOOP:
            raise BadConfig(
                f"'{handler.type}' runs in a {handler.isolation}: only async handlers can be "
                "simulated; name the types to simulate in `payloads`"
            )
        if handler.type not in payloads and (missing := _needed(handler)):
            raise BadConfig(
                f"'{handler.type}' needs {', '.join(missing)}: give --payload '{handler.type}={{...}}'"
            )
    queue.parts.sessions.make_resources = _refuse
    return UserHandlers(handlers, payloads)


def _refuse() -> Any:
    raise NotRunning(
        "a handler under simulation cannot enqueue through the module's queue: return what to do next"
    )


def _needed(handler: Handler) -> list[str]:
    """Arguments that the payload must contain."""
    return [] if handler.parameters is None else sorted(handler.parameters.required)


def bind(user_handlers: UserHandlers, handlers: Handlers, on_start: Any) -> None:
    """Registers the handlers on a node. Each run calls `on_start(task)` first."""
    for handler in user_handlers.handlers:

        async def run(task: Task, ctx: Context, handler: Handler = handler) -> object:
            on_start(task)
            return await invoke(handler, task, ctx)

        handlers.add(
            msgspec.structs.replace(handler, function=run, parameters=None, wants_context=True)
        )
