"""Types that live nodes of one store define with different options.

Promises: a node says which options its types have; a difference to another live node is logged once and
shown by `doctor`. Never: refuses a type, since two versions of one service differ while a release is rolled
out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

from holdfast.core import codec, node as rules
from holdfast.core.limit import LimitRule
from holdfast.core.task import NO_TIMEOUT
from holdfast.engine.handlers import Defaults, Handler, TypeConfig, resolved

TOLD_MAX: Final = 10_000
log = logging.getLogger("holdfast.engine")


class Namesakes:
    """One for each node."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._types: list[str] = []
        self.options: dict[str, dict[str, object]] = {}
        """By type, for types that have any; other nodes read it."""
        self._told: set[tuple[str, str]] = set()

    def define(self, handlers: Iterable[Handler], defaults: Defaults) -> None:
        """These are the types of the node now."""
        found = {each.type: options_of(each.config, defaults) for each in handlers}
        self._types = list(found)
        self.options = {name: options for name, options in found.items() if options}

    def compare(self, rows: Iterable[Any], now: float) -> None:
        """Logs each type that a live node defines otherwise; from rows of the statement `nodes`."""
        for other, _, seen_at, info_json in rows:
            said = codec.loads_object(info_json)
            if other != self._node and rules.is_live(seen_at, rules.lease_seconds_of(said), now):
                self._compare(other, rules.definitions(said))

    def _compare(self, other: str, definitions: dict[str, dict[str, object]]) -> None:
        for name in self._types:
            if name not in definitions:
                continue
            found = rules.difference(self.options.get(name, {}), definitions[name])
            if found and (name, found) not in self._told and len(self._told) < TOLD_MAX:
                self._told.add((name, found))
                log.warning(
                    "type '%s' is defined by this node and by %s with different options: %s (here and "
                    "there). A task gets the options of the process that enqueues it. Unless a new version "
                    "is being rolled out, give one of the types another name, or both the same options",
                    name,
                    other,
                    found,
                )


def options_of(config: TypeConfig, defaults: Defaults) -> dict[str, object]:
    """The options of a type by the names that the code gives them, without those that are as they are in a
    queue without settings."""
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
        **_limit("", config.limit),
        **_limit("key_", config.key_limit),
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
