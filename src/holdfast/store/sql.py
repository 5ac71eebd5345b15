"""Loads named statements and migrations from `.sql` files.

Promises: statements have unique names, and say which index they rely on and what they return.
Never: builds SQL from values. Macros expand to columns, whose sets are in `columns.py`: those of a task, and
those of the fleet's tables (`{host}`, `{job}`, ...; also in `-- returns: {host}`):
    {task}, {new}, {plain}, {shape}, {changed}      their names, in the order of the task's fields
    {claimed}, {rare}                               what a claim returns of most tasks; NULL in those tasks
    {task:t}                                        the same as columns of t
    {plain?}                                        as parameters: :id, :type
    {shape?::}                                      as parameters with their types: :id::text
    {shape[]}                                       as parameters that are arrays: :type::text[]
    {changed=r}                                     assigned from r: status = r.status
    {rows: id text, seen bigint, @changed}          the caller's rows as a table named r
    {host_answers}                                  a condition of `conditions.py`
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Final, Generic, NamedTuple, TypeVar

from holdfast.core.codec import digest
from holdfast.store.columns import COLUMNS, Column
from holdfast.store.conditions import CONDITIONS

S = TypeVar("S")

WRITTEN: Final = "written:"
"""The prefix of a name that is followed by the text of the statement, with its headers. For searches: the
text has the names of parameters, never a value."""
WRITTEN_MAX: Final = 200
"""Texts of such statements that are kept prepared."""
_BLOCK: Final = re.compile(r"^-- name: *(\w+)\n", re.MULTILINE)
_HEADER: Final = re.compile(r"^-- (index|returns): *(.*)\n", re.MULTILINE)
_SET: Final = re.compile(rf"\{{({'|'.join(COLUMNS)})(?:([:=])(\w+)|(\?|\?::|\[\]))?\}}")
_CONDITION: Final = re.compile(rf"\{{({'|'.join(CONDITIONS)})\}}")
_LOCKS: Final = re.compile(r"\bFOR (?:NO KEY )?UPDATE\b", re.IGNORECASE)
_READS: Final = re.compile(r"\s*(?:SELECT|WITH)\b", re.IGNORECASE)
_MAY_WRITE: Final = re.compile(
    r"\b(?:(?:INSERT|UPDATE|DELETE|MERGE|INTO|TRUNCATE|nextval|setval)\b|holdfast_\w+ *\()",
    re.IGNORECASE,
)
"""Words of a statement that changes rows, also within WITH. Functions of Holdfast count as writes."""
_ROWS: Final = re.compile(r"\{rows: *([^}]*)\}", re.DOTALL)


class Statement(NamedTuple):
    """One statement, ready for a driver to translate."""

    name: str
    text: str
    returns: str
    """'task', 'nothing', or column names."""
    columns: tuple[Column, ...]
    """The columns of `{rows: ...}`. Empty if the statement takes no rows."""


class Migration(NamedTuple):
    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return digest(self.text)


RowsMacro = Callable[[tuple[Column, ...]], str]


class Statements(dict[str, S], Generic[S]):
    """The statements of a dialect by name, in the form that its driver needs.

    A package above the store may have statements, which it calls `package:statement`. The folder
    `statements/<dialect>` of that package is read when one of them is first used."""

    def __init__(
        self, dialect: str, rows_macro: RowsMacro, prepare: Callable[[Statement], S]
    ) -> None:
        self._folder = f"statements/{dialect}"
        self._rows_macro = rows_macro
        self._prepare = prepare
        ours = load_statements(f"holdfast.store.{dialect}", rows_macro)
        super().__init__({name: prepare(statement) for name, statement in ours.items()})

    def __missing__(self, name: str) -> S:
        if name.startswith(WRITTEN):
            return self._written(name)
        package, _, short_name = name.rpartition(":")
        if not package:
            raise KeyError(name)
        loaded = load_statements(package, self._rows_macro, self._folder)
        self.update(
            {f"{package}:{key}": self._prepare(statement) for key, statement in loaded.items()}
        )
        return self._prepare(loaded[short_name])

    def _written(self, name: str) -> S:
        """Prepares a statement whose name is its text. The oldest of them are forgotten."""
        made = [key for key in self if key.startswith(WRITTEN)]
        for key in made[: len(made) - WRITTEN_MAX + 1]:
            del self[key]
        text = name.removeprefix(WRITTEN)
        self[name] = self._prepare(_statement("written", text, self._rows_macro))
        return self[name]


def load_statements(
    package: str, rows_macro: RowsMacro, folder: str = "statements"
) -> dict[str, Statement]:
    """Loads all statements of a folder of a package."""
    statements: dict[str, Statement] = {}
    for text in _texts(package, folder):
        pieces = _BLOCK.split(text)[1:]
        for name, body in zip(pieces[::2], pieces[1::2], strict=True):
            if name in statements:
                raise ValueError(f"statement '{name}' is defined twice in {package}")
            statements[name] = _statement(name, body, rows_macro)
    return statements


def load_migrations(package: str) -> list[Migration]:
    """Loads the migrations of a dialect, by number."""
    migrations = []
    for file in files(package).joinpath("migrations").iterdir():
        if file.name.endswith(".sql"):
            number, _, name = file.name.removesuffix(".sql").partition("_")
            migrations.append(Migration(int(number), name, file.read_text("utf-8")))
    return sorted(migrations)


def only_reads(text: str) -> bool:
    """Whether a statement certainly changes no row. A row lock is not a change. A statement that is not
    recognized counts as a write."""
    bare = _LOCKS.sub("", text)
    return _READS.match(bare) is not None and _MAY_WRITE.search(bare) is None


def _texts(package: str, folder: str) -> Iterator[str]:
    for file in sorted(files(package).joinpath(folder).iterdir(), key=lambda f: f.name):
        if file.name.endswith(".sql"):
            yield file.read_text("utf-8")


def _statement(name: str, body: str, rows_macro: RowsMacro) -> Statement:
    headers = dict(_HEADER.findall(body))
    columns: tuple[Column, ...] = ()

    def rows(macro: re.Match[str]) -> str:
        nonlocal columns
        columns = tuple(_row_columns(macro[1]))
        return rows_macro(columns)

    text = "\n".join(line for line in body.splitlines() if not line.lstrip().startswith("--"))
    text = _CONDITION.sub(lambda macro: CONDITIONS[macro[1]], text)
    text = _ROWS.sub(rows, _SET.sub(_listed, text)).strip().rstrip(";")
    returns = _SET.sub(_listed, headers.get("returns", "nothing")).replace(", ", " ")
    return Statement(name, text, returns, columns)


def _listed(macro: re.Match[str]) -> str:
    """Expands a macro to a set of columns, in the form that it names."""
    columns = COLUMNS[macro[1]]
    match macro[2] or macro[4]:
        case ":":
            return ", ".join(f"{macro[3]}.{column.name}" for column in columns)
        case "=":
            return ", ".join(f"{column.name} = {macro[3]}.{column.name}" for column in columns)
        case "?":
            return ", ".join(f":{column.name}" for column in columns)
        case "?::":
            return ", ".join(f":{column.name}::{column.type}" for column in columns)
        case "[]":
            return ", ".join(f":{column.name}::{column.type}[]" for column in columns)
        case _:
            return ", ".join(column.name for column in columns)


def _row_columns(text: str) -> Iterator[Column]:
    for part in text.replace("\n", " ").split(","):
        name, _, kind = part.strip().partition(" ")
        if name.startswith("@"):
            yield from COLUMNS[name[1:]]
        else:
            yield Column(name, kind.strip())
