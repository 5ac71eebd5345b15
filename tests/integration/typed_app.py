"""Handlers of every kind whose arguments and results have types that JSON does not have."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from holdfast import Snooze, TaskQueue

tasks = TaskQueue("sqlite:///never-opened.db")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(StrEnum):
    YES = "yes"


class Point(NamedTuple):
    x: int
    y: float


@dataclass
class Line:
    amount: Decimal
    due: date
    tags: set[str] = field(default_factory=set)


@dataclass(eq=False)
class Bare:
    at: datetime


class Order(msgspec.Struct):
    id: UUID
    lines: list[Line]
    colour: Colour | None = None


class Note(TypedDict):
    at: datetime
    text: NotRequired[str]


class Customer(BaseModel):
    model_config = ConfigDict(strict=True)
    name: str
    since: datetime
    credit: Decimal = Field(alias="creditLimit")


class Everything(msgspec.Struct):
    """One field for each type that travels."""

    when: datetime
    day: date
    clock: time
    length: timedelta
    name: UUID
    amount: Decimal
    raw: bytes
    colour: Colour
    level: Level
    word: Word
    point: Point
    pair: tuple[int, str]
    row: tuple[date, ...]
    numbers: set[int]
    words: frozenset[str]
    line: Line
    order: Order
    note: Note
    customer: Customer
    maybe: date | None
    by_day: dict[date, list[Decimal]]
    by_number: dict[int, UUID]
    items: list[Line]
    plain: dict[str, Any]


@tasks.task
async def in_loop(value: Everything) -> Everything:
    assert type(value) is Everything
    return value


@tasks.task
def in_thread(value: Everything) -> Everything:
    assert type(value) is Everything
    return value


@tasks.task(isolation="process")
def in_process(value: Everything) -> Everything:
    assert type(value) is Everything, type(value)
    return value


@tasks.task
async def each(
    when: datetime,
    amount: Decimal,
    raw: bytes,
    numbers: set[int],
    customer: Customer,
    line: Line | None = None,
    by_number: dict[int, str] | None = None,
) -> tuple[datetime, Decimal, bytes, set[int], Customer] | Snooze:
    assert (type(when), type(amount), type(raw)) == (datetime, Decimal, bytes)
    assert (type(numbers), type(customer)) == (set, Customer)
    assert type(line) in (Line, type(None))
    return when, amount, raw, numbers, customer


@tasks.task
async def loose(value, other: Any = None):  # type: ignore[no-untyped-def]
    return [value, other]


@tasks.task
async def builtin(n: int, ratio: float = 0.0, names: list[str] | None = None) -> int:
    return n


@tasks.task
async def due_on(day: date) -> date:
    return day + timedelta(days=1)


@tasks.task(max_attempts=3)
async def later_changed(day: date, *, zone: str = "") -> None: ...
