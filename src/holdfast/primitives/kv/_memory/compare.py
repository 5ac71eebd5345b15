"""The scripts of `scripts/*.lua` in memory, recognised by their text."""

from __future__ import annotations

import functools
from collections.abc import Callable

from holdfast.primitives.kv._commands.compare import script
from holdfast.primitives.kv._memory.keyspace import Keyspace
from holdfast.primitives.kv._memory.strings import get, set_
from holdfast.primitives.kv._op import Reply, Words
from holdfast.primitives.kv._problems import Refused


def evaluate(db: Keyspace, words: Words) -> Reply:
    twin = _twins().get(words[1])
    if twin is None:
        raise Refused("the memory backend runs only the scripts of Holdfast")
    return twin(db, words[3:])


def _compare_and_set(db: Keyspace, words: Words) -> Reply:
    key, is_expected, expected, new, px = words
    found = get(db, ("GET", key))
    if found != (expected if is_expected == "1" else None):
        return 0
    set_(db, ("SET", key, new, *(("PX", px) if px else ())))
    return 1


def _compare_and_delete(db: Keyspace, words: Words) -> Reply:
    key, expected = words
    if get(db, ("GET", key)) != expected:
        return 0
    db.drop(key)
    return 1


@functools.cache
def _twins() -> dict[str, Callable[[Keyspace, Words], Reply]]:
    return {
        script("compare_and_set"): _compare_and_set,
        script("compare_and_delete"): _compare_and_delete,
    }
