"""Named statements from `.sql` files, and migrations in order.

Promises: a statement is found by its name; each says which index it relies on and what it returns.
Never: builds SQL from values. The two macros only save writing:
    {task} or {task:t}                  the columns of a task, in the order of its fields
    {rows: id text, version bigint}     the caller's rows as a table named r
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Final, NamedTuple

from holdfast.core.codec import digest
from holdfast.core.task import Task

TASK_COLUMNS: Final = Task.__struct_fields__

_BLOCK: Final = re.compile(r"^-- name: *(\w+)\n", re.MULTILINE)
_HEADER: Final = re.compile(r"^-- (index|returns): *(.*)\n", re.MULTILINE)
_TASK: Final = re.compile(r"\{task(?::(\w+))?\}")
_LOCKS: Final = re.compile(r"\bFOR (?:NO KEY )?UPDATE\b", re.IGNORECASE)
_READS: Final = re.compile(r"\s*(?:SELECT|WITH)\b", re.IGNORECASE)
_MAY_WRITE: Final = re.compile(
    r"\b(?:(?:INSERT|UPDATE|DELETE|MERGE|INTO|TRUNCATE|nextval|setval)\b|holdfast_\w+ *\()",
    re.IGNORECASE,
)
"""Words of a statement that changes rows, also within WITH; functions of ours may do anything."""
_ROWS: Final = re.compile(r"\{rows: *([^}]*)\}", re.DOTALL)


class Column(NamedTuple):
    """A column of the caller's rows."""

    name: str
    type: str


class Statement(NamedTuple):
    """One statement, ready for a driver to translate."""

    name: str
    text: str
    returns: str
    """'task', 'nothing', or column names."""
    columns: tuple[Column, ...]
    """Of `{rows: ...}`; empty when the statement takes none."""


class Migration(NamedTuple):
    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return digest(self.text)


RowsMacro = Callable[[tuple[Column, ...]], str]


def load_statements(package: str, rows_macro: RowsMacro) -> dict[str, Statement]:
    """All statements of a dialect's `statements` folder."""
    found: dict[str, Statement] = {}
    for text in _texts(package, "statements"):
        pieces = _BLOCK.split(text)[1:]
        for name, body in zip(pieces[::2], pieces[1::2], strict=True):
            if name in found:
                raise ValueError(f"statement '{name}' stands twice in {package}")
            found[name] = _statement(name, body, rows_macro)
    return found


def load_migrations(package: str) -> list[Migration]:
    """A dialect's migrations, by number."""
    found = []
    for file in files(package).joinpath("migrations").iterdir():
        if file.name.endswith(".sql"):
            number, _, name = file.name.removesuffix(".sql").partition("_")
            found.append(Migration(int(number), name, file.read_text("utf-8")))
    return sorted(found)


def only_reads(text: str) -> bool:
    """Whether a statement surely changes no row. A row lock is no change. What is not known to read counts as
    writing."""
    bare = _LOCKS.sub("", text)
    return _READS.match(bare) is not None and _MAY_WRITE.search(bare) is None


def _texts(package: str, folder: str) -> Iterator[str]:
    for file in sorted(files(package).joinpath(folder).iterdir(), key=lambda f: f.name):
        if file.name.endswith(".sql"):
            yield file.read_text("utf-8")


def _statement(name: str, body: str, rows_macro: RowsMacro) -> Statement:
    headers = dict(_HEADER.findall(body))
    columns: tuple[Column, ...] = ()

    def rows(found: re.Match[str]) -> str:
        nonlocal columns
        names = [part.split() for part in found[1].replace("\n", " ").split(",")]
        columns = tuple(Column(part[0], " ".join(part[1:])) for part in names)
        return rows_macro(columns)

    def task(found: re.Match[str]) -> str:
        prefix = f"{found[1]}." if found[1] else ""
        return ", ".join(prefix + column for column in TASK_COLUMNS)

    text = "\n".join(line for line in body.splitlines() if not line.lstrip().startswith("--"))
    text = _ROWS.sub(rows, _TASK.sub(task, text)).strip().rstrip(";")
    return Statement(name, text, headers.get("returns", "nothing"), columns)
