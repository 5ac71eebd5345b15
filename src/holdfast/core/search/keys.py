"""The keys of a query as data: what each holds, which values it takes, whether an index serves it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from holdfast.core.task import Priority, Status


class Kind(StrEnum):
    """What the value of a key is, and so which tests it takes."""

    TEXT = "text"
    NUMBER = "number"
    TIME = "time"
    AGE = "age"
    """Seconds since `created`. It is judged by that time."""
    LOCK = "lock"
    """A lease, given as the time of its end: `held` or `expired`."""
    JSON = "json"
    """A JSON document. The key is followed by a path: `args.user.id`."""


class Key(msgspec.Struct, frozen=True):
    """One key of a query."""

    name: str
    kind: Kind
    indexed: bool = False
    words: tuple[str, ...] = ()
    """The words that the key takes as values. Empty: any text."""
    numbers: tuple[tuple[str, int], ...] = ()
    """Names of numbers, e.g. `high` of `priority`."""
    many: bool = False
    """Whether a row has any number of values. A test holds if it holds for one of them."""


Keys: TypeAlias = Mapping[str, Key]


def table(*keys: Key) -> Keys:
    """The keys of one kind of list."""
    return MappingProxyType({key.name: key for key in keys})


ID: Final = "id"
"""The key of a bare word."""
NAMED: Final = "named"
"""Not a key: the other name that `id:NAME` finds a row by."""
SORT: Final = "sort"
SORTED: Final = ("created", "updated", "age")
CREATED: Final = "created"
"""The key whose value `age` is judged by."""
HELD: Final = "held"
EXPIRED: Final = "expired"

TASK_KEYS: Final[Keys] = table(
    Key(ID, Kind.TEXT, indexed=True),
    Key("status", Kind.TEXT, indexed=True, words=tuple(Status)),
    Key("type", Kind.TEXT, indexed=True),
    Key("queue", Kind.TEXT, indexed=True),
    Key("project", Kind.TEXT, indexed=True),
    Key("node", Kind.TEXT),
    Key("priority", Kind.NUMBER, numbers=tuple((p.name.lower(), p.value) for p in Priority)),
    Key("attempt", Kind.NUMBER),
    Key("version", Kind.NUMBER),
    Key("held", Kind.TEXT),
    Key("why", Kind.TEXT),
    Key("job", Kind.TEXT, indexed=True, many=True),
    Key("host", Kind.TEXT),
    Key("error", Kind.TEXT),
    Key("fingerprint", Kind.TEXT, indexed=True),
    Key("age", Kind.AGE, indexed=True),
    Key(CREATED, Kind.TIME, indexed=True),
    Key("updated", Kind.TIME),
    Key("due", Kind.TIME),
    Key("finished", Kind.TIME),
    Key("tag", Kind.TEXT, indexed=True, many=True),
    Key("args", Kind.JSON),
    Key("meta", Kind.JSON),
    Key("lock", Kind.LOCK, words=(HELD, EXPIRED)),
    Key("decision", Kind.TEXT, words=("open",)),
)
"""The keys of a list of tasks. Lists of other things bring a table of their keys."""
