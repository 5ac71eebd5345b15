"""The registered task types, and the request that results from a type and the arguments of an enqueue.

Promises: a type is registered by a handler of this process or by any node of the store. An unknown type
raises UnknownType.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from difflib import get_close_matches
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.core.check import check_choice, check_name, shown
from holdfast.core.dependency import DependencyPolicy, Edge
from holdfast.core.keywords import DependsOn, Tags
from holdfast.core.limit import LimitRule, name_of
from holdfast.core.priority import named
from holdfast.core.request import EnqueueRequest
from holdfast.core.seconds import Seconds, check_moment, check_span, in_seconds
from holdfast.core.tags import check_tags
from holdfast.core.task import EXTERNAL, NO_TIMEOUT, Priority, TaskOptions
from holdfast.core.unique import Unique, check_chosen
from holdfast.engine.argument_schema import check_by_schema
from holdfast.engine.blocking_group_handle import BlockingGroupHandle
from holdfast.engine.group_handle import GroupHandle
from holdfast.engine.handlers import Handlers, TypeConfig, resolved
from holdfast.engine.parameters import Parameters, checked_payload
from holdfast.errors import InvalidInput, UnknownType
from holdfast.queue.settings import SettingsInForce
from holdfast.store.store import Store

TYPES_SECONDS: Final = 60.0
"""How long the types of other nodes are cached."""
TYPE: Final = msgspec.json.Decoder(TypeConfig)
OF_NODES: Final = TypeConfig(queue=EXTERNAL)
"""The configuration of tasks that no worker runs: nodes claim them by their ids."""


class EnqueueOptions(msgspec.Struct, frozen=True, gc=False):
    """The options of an enqueue as the caller gave them. An omitted option has its default."""

    queue: str | None = None
    priority: Priority | str | int | None = None
    max_attempts: int | None = None
    metadata: dict[str, object] | None = None
    depends_on: DependsOn = ()
    delay: Seconds = 0.0
    timeout: Seconds | UnsetType | None = UNSET
    progress_timeout: Seconds | UnsetType | None = UNSET
    key: str | None = None
    idempotency_key: str | None = None
    project: str | None = None
    run_at: datetime | None = None
    unique: Unique | UnsetType | None = UNSET
    tags: Tags = ()

    @property
    def are_none(self) -> bool:
        """Whether the caller gave no option. Values that are no delay but equal 0, such as False, are left to
        the checks."""
        return self == NO_OPTIONS and self.delay.__class__ is float


NO_OPTIONS: Final = EnqueueOptions()


class KnownTypes:
    """The types that handlers of this process or other nodes of the store have registered."""

    def __init__(self, handlers: Handlers, settings: SettingsInForce) -> None:
        self.handlers = handlers
        self._settings = settings
        self._elsewhere: dict[str, TypeConfig] = {}
        self._read_at = float("-inf")

    def request(
        self,
        config: TypeConfig,
        *,
        type: str,
        payload: object = None,
        options: EnqueueOptions,
    ) -> EnqueueRequest:
        """The request of a task. Options that the caller did not give are those of the type."""
        queue, priority, timeout = options.queue, options.priority, options.timeout
        max_attempts = options.max_attempts
        whole = resolved(config, self._settings.current.defaults)
        return EnqueueRequest(
            type=type,
            payload=payload,
            queue=config.queue if queue is None else queue,
            priority=config.priority if priority is None else named(priority),
            max_attempts=whole.max_attempts or 1 if max_attempts is None else max_attempts,
            delay_seconds=in_seconds(options.delay),
            run_at=None if options.run_at is None else check_moment("run_at", options.run_at),
            metadata=options.metadata,
            tags=() if options.tags == () else check_tags(options.tags),
            type_tags=config.tags,
            keep_done_seconds=config.keep_done_seconds,
            depends_on=_edges(options.depends_on),
            idempotency_key=options.idempotency_key,
            key=options.key,
            project=self._settings.current.project if options.project is None else options.project,
            progress_timeout_seconds=self._progress_timeout(config, options.progress_timeout),
            unique=self._window(config, type, options.unique),
            options=TaskOptions(
                timeout_seconds=config.timeout_seconds if timeout is UNSET else timeout_in(timeout),
                retry_base_seconds=whole.retry_base_seconds or 0.0,
                retry_cap_seconds=whole.retry_cap_seconds or 0.0,
                max_deaths=whole.max_deaths or 1,
            ),
            rules=_rules(config, type, options.key),
            fair=config.fair,
            defaulted=_defaulted(options),
        )

    def _window(
        self, config: TypeConfig, type_name: str, given: Unique | UnsetType | None
    ) -> Unique | None:
        """The unique window: of the caller, or of the type."""
        if given is UNSET:
            return config.unique
        unique = check_unique(given)
        check_chosen(unique, type_name, self._names(config, type_name), InvalidInput)
        return unique

    def _names(self, config: TypeConfig, type_name: str) -> Collection[str] | None:
        """The names of the arguments of a type. None: any, or not known."""
        known = self.parameters(type_name)
        if known is not None:
            return known.names
        schema = config.arguments or {}
        is_closed = schema.get("additionalProperties") is False
        return schema.get("properties") if is_closed else None

    def _progress_timeout(
        self, config: TypeConfig, given: Seconds | UnsetType | None
    ) -> float | None:
        """How long a run may go without progress: by the caller, the type, or the settings."""
        if given is not UNSET:
            return None if given is None else check_span("progress_timeout", given)
        if config.progress_timeout_seconds is not None:
            return config.progress_timeout_seconds
        return self._settings.current.progress_timeout

    def config(self, type_name: str) -> TypeConfig:
        """Returns the configuration of a type that `find` has returned before."""
        handler = self.handlers.get(type_name)
        return handler.config if handler is not None else self._elsewhere[type_name]

    def parameters(self, type_name: str) -> Parameters | None:
        """The arguments of a type whose handler is in this process. None if it takes the task, or if its
        handler is not known here."""
        handler = self.handlers.get(type_name)
        return None if handler is None else handler.parameters

    async def checked(
        self, store: Store, type_name: str, payload: object
    ) -> tuple[TypeConfig, object]:
        """The configuration of a type, and the payload to store. InvalidInput unless it fits the arguments of
        the type, which the handler of this process has, or another node has registered. A refusal is by what
        the store says now."""
        handler = self.handlers.get(type_name) if isinstance(type_name, str) else None
        if handler is not None:
            known = handler.parameters
            return handler.config, payload if known is None else checked_payload(known, payload)
        config = await self.find(store, type_name)
        if config.arguments is None:
            return config, payload
        try:
            check_by_schema(type_name, config.arguments, payload)
        except InvalidInput:
            await self._read(store)
            config = await self.find(store, type_name)
            if config.arguments is not None:
                check_by_schema(type_name, config.arguments, payload)
        return config, payload

    async def find(self, store: Store, type_name: str) -> TypeConfig:
        """Returns the configuration of a type, from a handler of this process or from the store. Raises
        UnknownType if there is neither. Tasks for nodes (`external`) need no handler."""
        if not isinstance(type_name, str):
            raise InvalidInput(
                f"the type of a task is text, not {shown(type_name)}: give its name, or call "
                "`enqueue` of the function with @queue.task"
            )
        check_name("type", type_name)
        handler = self.handlers.get(type_name)
        if handler is not None:
            return handler.config
        if type_name not in self._elsewhere or store.now() - self._read_at > TYPES_SECONDS:
            await self._read(store)
        config = self._elsewhere.get(type_name)
        if config is None:
            names = sorted({*self._elsewhere, *self.handlers.types()} - {EXTERNAL})
            near = get_close_matches(type_name, names, 3)
            advice = f"did you mean {' or '.join(near)}? " if near else ""
            raise UnknownType(
                f"no node has registered a handler for type '{type_name}' (known: "
                f"{', '.join(names[:10]) or 'none yet'}): {advice}"
                "register one and start that worker first, or check the name"
            )
        return config

    async def _read(self, store: Store) -> None:
        types = await store.reads.types()
        known = {row.name: TYPE.decode(row.config_json) for row in types}
        self._elsewhere = {EXTERNAL: OF_NODES, **known}
        self._read_at = store.now()


def _defaulted(options: EnqueueOptions) -> frozenset[str]:
    """The fields of the request that the caller left to the type."""
    left = {
        "queue": options.queue is None,
        "priority": options.priority is None,
        "max_attempts": options.max_attempts is None,
        "timeout": options.timeout is UNSET,
        "progress_timeout_seconds": options.progress_timeout is UNSET,
        "unique": options.unique is UNSET,
    }
    return frozenset(name for name, is_left in left.items() if is_left)


def _edges(depends_on: DependsOn) -> tuple[Edge, ...]:
    """Accepts ids, edges, or a mapping from id to policy."""
    if isinstance(depends_on, str | bytes) or not isinstance(depends_on, Iterable):
        raise InvalidInput(f"depends_on is {shown(depends_on)}: pass a list of task ids")
    given = depends_on.items() if isinstance(depends_on, Mapping) else _given_edges(depends_on)
    edges = {}
    for parent, policy in given:
        name = str(check_name("an id in depends_on", parent))
        edges[name] = Edge(name, check_choice("edge policy", policy, DependencyPolicy))
    return tuple(edges.values())


def _given_edges(depends_on: Iterable[object]) -> Iterator[tuple[object, object]]:
    for given in depends_on:
        if isinstance(given, Edge):
            yield given.parent_id, given.policy
        elif isinstance(given, GroupHandle | BlockingGroupHandle):
            yield from ((task_id, DependencyPolicy.FAIL) for task_id in given.task_ids)
        else:
            yield given, DependencyPolicy.FAIL


def check_unique(given: object, *, wrong: type[InvalidInput] = InvalidInput) -> Unique | None:
    """A unique window, or None."""
    if given is None or isinstance(given, Unique):
        return given
    raise wrong(f"unique is {shown(given)}: give Unique(until='ended') or another window, or None")


def timeout_in(given: object, *, wrong: type[InvalidInput] = InvalidInput) -> float:
    """Checks a timeout and returns its stored form. None means no timeout."""
    return NO_TIMEOUT if given is None else check_span("timeout", given, wrong=wrong)


def _rules(
    config: TypeConfig, type_name: str, key: str | None
) -> tuple[tuple[str, LimitRule], ...]:
    rules: list[tuple[str, LimitRule]] = []
    if config.limit is not None:
        rules.append((name_of(type_name), config.limit))
    if key is not None:
        check_name("key", key)
    if key is not None and config.key_limit is not None:
        rules.append((name_of(type_name, key), config.key_limit))
    return tuple(rules)
