"""Detects types that live nodes of one store define with different options.

Promises: a node publishes the options of its types. A difference to another live node is logged once and
shown by `doctor`. Never: refuses a type, since two versions of a service may differ during a rollout.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from holdfast.core import codec, node as rules
from holdfast.core.limit import LimitRule
from holdfast.core.task import NO_TIMEOUT
from holdfast.engine.handlers import Defaults, Handler, TypeConfig, resolved
from holdfast.store.rows import NodeRow

LOGGED_MAX: Final = 10_000
log = logging.getLogger("holdfast.engine")


class TypeConflicts:
    """One for each node."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._types: list[str] = []
        self.options: dict[str, dict[str, object]] = {}
        """The options by type that differ from the defaults. Other nodes read them."""
        self._logged: set[tuple[str, str]] = set()
        self._compared: dict[str, str] = {}
        """The descriptions that were compared with the types of this node, by node."""

    def define(self, handlers: Iterable[Handler], defaults: Defaults) -> None:
        """Sets the types of this node."""
        options_by_type = {
            handler.type: options_of(handler.config, defaults) for handler in handlers
        }
        self._types = list(options_by_type)
        self._compared = {}
        self.options = {name: options for name, options in options_by_type.items() if options}

    def compare(self, nodes: Iterable[NodeRow], now: float) -> None:
        """Logs each type that another live node defines differently. A description that is as before has
        nothing new to log."""
        before, self._compared = self._compared, {}
        for node in nodes:
            if node.id == self._node:
                continue
            if before.get(node.id) != node.info_json:
                description = codec.loads_object(node.info_json)
                if not rules.is_live(node.seen_at, rules.lease_seconds_of(description), now):
                    continue
                self._compare(node.id, rules.definitions(description))
            self._compared[node.id] = node.info_json

    def _compare(self, other: str, definitions: dict[str, dict[str, object]]) -> None:
        for name in self._types:
            if name not in definitions:
                continue
            difference = rules.difference(self.options.get(name, {}), definitions[name])
            if (
                difference
                and (name, difference) not in self._logged
                and len(self._logged) < LOGGED_MAX
            ):
                self._logged.add((name, difference))
                log.warning(
                    "type '%s' is defined by this node and by %s with different options: %s (here and "
                    "there). A task gets the options of the process that enqueues it. Unless a new version "
                    "is being rolled out, give one of the types another name, or both the same options",
                    name,
                    other,
                    difference,
                )


def options_of(config: TypeConfig, defaults: Defaults) -> dict[str, object]:
    """The options of a type by their names in code, without those that have the default of a queue without
    settings."""
    usual = _named(resolved(TypeConfig(), Defaults()))
    named = _named(resolved(config, defaults))
    return {name: value for name, value in named.items() if value != usual.get(name)}


def _named(config: TypeConfig) -> dict[str, object]:
    timeout = config.timeout_seconds
    named = {
        "queue": config.queue,
        "priority": config.priority.name.lower(),
        "max_attempts": config.max_attempts,
        "timeout": "none" if timeout == NO_TIMEOUT else timeout,
        "retry_delay": config.retry_base_seconds,
        "max_retry_delay": config.retry_cap_seconds,
        "max_deaths": config.max_deaths,
        "progress_timeout": config.progress_timeout_seconds,
        "tags": ", ".join(config.tags) or None,
        "keep_done": config.keep_done_seconds,
        "unique": None if config.unique is None else codec.dumps(config.unique),
        **_limit("", config.limit),
        **_limit("key_", config.key_limit),
        "fair": config.fair or None,
    }
    return {name: value for name, value in named.items() if value is not None}


def _limit(prefix: str, rule: LimitRule | None) -> dict[str, object]:
    if rule is None:
        return {}
    seconds = "" if rule.rate_seconds == 1 else f"{rule.rate_seconds:g}"
    return {
        f"{prefix}concurrency": rule.max_running,
        f"{prefix}rate": None if rule.rate_count is None else f"{rule.rate_count}/{seconds}s",
        "burst": rule.burst if rule.burst != 1 else None,
    }
