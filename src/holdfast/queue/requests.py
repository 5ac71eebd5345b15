"""From the arguments of an enqueue, and what is known of the type, to a request.

Promises: a type is known when a handler here or any node of the store has registered it; else it is
refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.core.dependency import Edge, Policy
from holdfast.core.limit import Rule
from holdfast.core.submit import Request
from holdfast.core.task import Options, Priority
from holdfast.engine.handlers import TypeConfig, resolved
from holdfast.errors import InvalidInput, UnknownType
from holdfast.queue.backend import Backend
from holdfast.queue.backpressure import Backpressure

TYPES_SECONDS: Final = 60.0
"""How long what other nodes registered is believed without asking again."""
TYPE: Final = msgspec.json.Decoder(TypeConfig)
DependsOn: TypeAlias = Iterable[str | Edge] | Mapping[str, str]


class Requests(Backpressure):
    """The part of a queue that knows types."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._types: dict[str, TypeConfig] = {}
        self._types_at = float("-inf")

    def _request(
        self,
        config: TypeConfig,
        *,
        type: str,
        payload: object = None,
        queue: str | None = None,
        priority: Priority | str | int | None = None,
        max_attempts: int | None = None,
        metadata: dict[str, object] | None = None,
        depends_on: DependsOn = (),
        delay: float = 0.0,
        timeout: float | None = None,
        key: str | None = None,
        idempotency_key: str | None = None,
    ) -> Request:
        s = self._settings
        if max_attempts is None:
            max_attempts = config.max_attempts or s.default_max_attempts
        return Request(
            type=type,
            payload=payload,
            queue=queue or config.queue,
            priority=config.priority if priority is None else priority,
            max_attempts=max_attempts,
            delay_seconds=delay,
            metadata=metadata,
            depends_on=_edges(depends_on),
            idempotency_key=idempotency_key,
            options=self._options(config, timeout),
            rules=_rules(config, type, key),
        )

    def _options(self, config: TypeConfig, timeout: float | None) -> Options:
        if timeout is not None and not timeout > 0:
            raise InvalidInput(f"timeout is {timeout!r}: give a positive number of seconds")
        whole = resolved(config, self._settings.defaults)
        return Options(
            timeout_seconds=timeout if timeout is not None else config.timeout_seconds,
            retry_base_seconds=whole.retry_base_seconds or 0.0,
            retry_cap_seconds=whole.retry_cap_seconds or 0.0,
            max_deaths=whole.max_deaths or 1,
        )

    def _known_config(self, type_name: str) -> TypeConfig:
        handler = self._handlers.get(type_name)
        return handler.config if handler is not None else self._types[type_name]

    async def _config(self, backend: Backend, type_name: str) -> TypeConfig:
        """The type's configuration, from a handler here or from the node that registered it."""
        handler = self._handlers.get(type_name)
        if handler is not None:
            return handler.config
        now = backend.store.now()
        if type_name not in self._types or now - self._types_at > TYPES_SECONDS:
            rows = await backend.store.query("types")
            self._types = {name: TYPE.decode(config) for name, _, config in rows}
            self._types_at = now
        config = self._types.get(type_name)
        if config is None:
            known = ", ".join(sorted({*self._types, *self._handlers.types()})[:10]) or "none yet"
            raise UnknownType(
                f"no node has registered a handler for type '{type_name}' (known: {known}): "
                "register one and start that worker first, or check the name"
            )
        return config


def _edges(depends_on: DependsOn) -> tuple[Edge, ...]:
    """Ids, edges, or a mapping from id to policy."""
    if isinstance(depends_on, str):
        raise InvalidInput("depends_on is a text: give a list of task ids")
    if isinstance(depends_on, Mapping):
        return tuple(Edge(parent, _policy(policy)) for parent, policy in depends_on.items())
    edges = [each if isinstance(each, Edge) else Edge(str(each)) for each in depends_on]
    return tuple({edge.parent_id: edge for edge in edges}.values())


def _policy(text: str) -> Policy:
    try:
        return Policy(text)
    except ValueError:
        raise InvalidInput(f"edge policy '{text}' is not known: use 'fail' or 'ignore'") from None


def _rules(config: TypeConfig, type_name: str, key: str | None) -> tuple[tuple[str, Rule], ...]:
    rules: list[tuple[str, Rule]] = []
    if config.limit is not None:
        rules.append((type_name, config.limit))
    if key is not None and config.key_limit is not None:
        rules.append((f"{type_name}/{key}", config.key_limit))
    return tuple(rules)
