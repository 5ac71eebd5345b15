"""Arguments and results arrive as the handler declares them, or are refused with the argument's name."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, get_type_hints
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from holdfast import Status, TaskFunction, TaskQueue
from holdfast.engine.declared import Declared, Misfit, is_same
from holdfast.errors import InvalidInput
from holdfast.testing import VirtualClock, harness
from tests.integration import typed_app as app
from tests.integration.typed_app import Bare, Colour, Customer, Everything, Level, Line, Order, Word

NAIVE = datetime(2026, 1, 1, 5)  # noqa: DTZ001 - a time without a zone travels too
customers = st.builds(
    lambda name, since, credit: Customer(name=name, since=since, creditLimit=credit),
    st.text(),
    st.datetimes(),
    st.decimals(allow_nan=False, allow_infinity=False),
)
numbers = st.decimals(allow_nan=False, allow_infinity=False)
floats = st.floats(allow_nan=False, allow_infinity=False)
zones = st.sampled_from(
    [UTC, timezone(timedelta(hours=5, minutes=45)), timezone(-timedelta(hours=3))]
)
times = st.datetimes(timezones=st.none() | zones)
lines = st.builds(Line, amount=numbers, due=st.dates(), tags=st.sets(st.text()))
orders = st.builds(
    Order, id=st.uuids(), lines=st.lists(lines), colour=st.none() | st.sampled_from(Colour)
)
json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | floats | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "when": times,
    "day": st.dates(),
    "clock": st.times(),
    "length": st.timedeltas(),
    "name": st.uuids(),
    "amount": numbers,
    "raw": st.binary(),
    "colour": st.sampled_from(Colour),
    "level": st.sampled_from(Level),
    "word": st.sampled_from(Word),
    "point": st.builds(app.Point, st.integers(), floats),
    "pair": st.tuples(st.integers(), st.text()),
    "row": st.lists(st.dates()).map(tuple),
    "numbers": st.sets(st.integers()),
    "words": st.frozensets(st.text()),
    "line": lines,
    "order": orders,
    "note": st.fixed_dictionaries({"at": times}, optional={"text": st.text()}),
    "customer": customers,
    "maybe": st.none() | st.dates(),
    "by_day": st.dictionaries(st.dates(), st.lists(numbers)),
    "by_number": st.dictionaries(st.integers(), st.uuids()),
    "items": st.lists(lines),
    "plain": st.dictionaries(st.text(), json),
}


@pytest.fixture
def queue() -> TaskQueue:
    return TaskQueue("sqlite://", clock=VirtualClock())


def wire(value: object) -> Any:
    """What a store keeps."""
    return msgspec.json.decode(msgspec.json.encode(value))


@pytest.mark.parametrize("name", FIELDS)
def test_a_value_of_every_type_arrives(name: str) -> None:
    kind = get_type_hints(Everything)[name]
    declared = Declared(kind)

    @settings(max_examples=60)
    @given(FIELDS[name])
    def arrives(value: Any) -> None:
        made = declared.read(wire(declared.write(value)))
        assert type(made) is type(value)
        assert made == value

    arrives()


def test_every_type_of_the_page_is_tried() -> None:
    assert {*FIELDS} == {*Everything.__struct_fields__}


def a_customer() -> Customer:
    return Customer(name="ann", since=datetime(2026, 1, 1, tzinfo=UTC), creditLimit=Decimal("1.50"))


def everything() -> Everything:
    line = Line(Decimal("1.10"), date(2026, 1, 2), {"a", "b"})
    name = UUID(int=7)
    return Everything(
        when=datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        day=date(2026, 1, 2),
        clock=time(3, 4),
        length=timedelta(days=-1, microseconds=1),
        name=name,
        amount=Decimal("10.00"),
        raw=b"\x00\xff",
        colour=Colour.BLUE,
        level=Level.HIGH,
        word=Word.YES,
        point=app.Point(1, 2.5),
        pair=(1, "x"),
        row=(date(2026, 1, 2),),
        numbers={3, 1},
        words=frozenset("ab"),
        line=line,
        order=Order(name, [line], Colour.RED),
        note={"at": NAIVE},
        customer=a_customer(),
        maybe=None,
        by_day={date(2026, 1, 2): [Decimal("1.5")]},
        by_number={7: name},
        items=[line],
        plain={"a": [1, None]},
    )


def make(url: str) -> TaskQueue:
    queue = TaskQueue(url)
    for handler in app.tasks.definitions.handlers:
        queue.definitions.handlers.add(handler)
    return queue


@pytest.mark.parametrize("task", [app.in_loop, app.in_thread, app.in_process])
async def test_a_handler_of_every_kind_gets_and_returns_them(
    url: str, task: TaskFunction[[Everything], Everything]
) -> None:
    value = everything()
    async with make(url) as queue:
        handle = await queue.enqueue(task.type, {"value": value})
        assert await handle.result(60) == value
        many = await queue.enqueue_many([task.request(value), task.request(value)])
        assert [await each.result(60) for each in many] == [value, value]
        assert task.result_of(await handle.get()) == value
        stored = (await handle.get()).payload
        again = await queue.enqueue(task.type, stored)  # as JSON, e.g. from the command line
        assert await again.result(60) == value


async def test_arguments_are_converted_one_by_one(queue: TaskQueue) -> None:
    each = queue.task(app.each.function)
    now = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("Europe/Prague"))
    async with harness(queue) as h:
        handle = await each.enqueue(now, Decimal(1), b"x", {1}, a_customer(), None, {1: "a"})
        await h.run_until_idle()
        when, *rest = await handle.result()
        assert when.timestamp() == now.timestamp()  # the same moment; the zone is its offset
        assert rest == [Decimal(1), b"x", {1}, a_customer()]
        assert (await handle.get()).payload == {
            "when": "2026-10-25T02:30:00+01:00",
            "amount": "1",
            "raw": "eA==",
            "numbers": [1],
            "customer": {"name": "ann", "since": "2026-01-01T00:00:00Z", "creditLimit": "1.50"},
            "line": None,
            "by_number": {"1": "a"},
        }


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("type", "payload", "name"),
    [
        ("due_on", {"day": "soon"}, "day"),
        ("due_on", {"day": 5}, "day"),
        ("due_on", {"day": NAIVE}, "day"),
        ("builtin", {"n": "1"}, "n"),
        ("builtin", {"n": True}, "n"),
        ("builtin", {"n": 1, "names": [1]}, "names"),
        ("builtin", {"n": NAIVE}, "n"),
        ("builtin", {"n": 1, "ratio": Decimal("1.5")}, "ratio"),
        ("builtin", {"n": nested(1_000)}, "n"),
        ("builtin", {"n": nested(100_000)}, "n"),
        ("loose", {"value": NAIVE}, "value"),
        ("loose", {"value": [{"a": UUID(int=1)}]}, "value"),
        ("loose", {"value": 1, "other": {1: 2}}, "other"),
        ("loose", {"value": 1, "other": b"x"}, "other"),
        ("loose", {"value": 1, "other": {1, 2}}, "other"),
        ("loose", {"value": Line(Decimal(1), date(2026, 1, 1))}, "value"),
        ("loose", {"value": a_customer()}, "value"),
        ("loose", {"value": object()}, "value"),
    ],
)
async def test_what_cannot_make_the_trip_is_refused_with_its_name(
    queue: TaskQueue, type: str, payload: dict[str, Any], name: str
) -> None:
    for task in (app.due_on, app.builtin, app.loose):
        queue.definitions.handlers.add(
            next(h for h in app.tasks.definitions.handlers if h.type == task.type)
        )
    async with harness(queue) as h:
        for call in (
            queue.enqueue(type, payload),
            queue.enqueue_many([{"type": type, "payload": payload}]),
            queue.schedule("nightly", "@daily", type, payload),
        ):
            with pytest.raises(InvalidInput, match=f"argument '{name}' of task '{type}'"):
                await call
        assert await h.tasks() == []


async def test_values_that_arrive_as_they_are(queue: TaskQueue) -> None:
    loose = queue.task(app.loose.function)
    builtin = queue.task(app.builtin.function)
    async with harness(queue) as h:
        first = await loose.enqueue((1, [2, {"a": None}]), Word.YES)
        second = await builtin.enqueue(Level.HIGH, 1, ("a", first))
        await h.run_until_idle()
        assert await first.result() == [[1, [2, {"a": None}]], "yes"]
        assert (await second.get()).payload == {"n": 2, "ratio": 1, "names": ["a", first]}


async def test_a_payload_that_no_longer_fits_is_a_dead_letter_at_once(tmp_path: Path) -> None:
    """Another attempt would end alike."""
    queue = TaskQueue(f"sqlite:///{tmp_path}/q.db")
    queue.register_handler("later_changed", lambda task: None)
    ids = [
        (await queue.enqueue("later_changed", payload)).id
        for payload in ({"day": "soon"}, {"when": "2026-01-01"}, {})
    ]
    await queue.stop()
    queue = TaskQueue(f"sqlite:///{tmp_path}/q.db")
    queue.task(max_attempts=3)(app.later_changed.function)
    async with queue:
        ended = [await queue.wait_task(task_id, 30) for task_id in ids]
    assert [(task.status, task.attempts) for task in ended] == [(Status.FAILED, 1)] * 3
    why = [task.why_ended for task in ended]
    assert "argument 'day' of task 'later_changed' is 'soon'" in why[0]
    assert "missing a required argument: 'day'" in why[1]
    assert "missing a required argument: 'day'" in why[2]


def test_a_moment_is_compared_as_a_moment() -> None:
    prague = zoneinfo.ZoneInfo("Europe/Prague")
    for fold in (0, 1):
        value = datetime(2026, 10, 25, 2, 30, fold=fold, tzinfo=prague)
        declared = Declared(Bare)
        made = declared.read(wire(declared.write(Bare(value))))
        assert is_same(made, Bare(value))
    odd = timezone(timedelta(minutes=57, seconds=44))
    with pytest.raises(Exception, match="it would arrive as"):
        Declared(datetime).write(datetime(1900, 1, 1, tzinfo=odd))


def test_unknown_keys_of_a_typed_dict_are_refused() -> None:
    """As objects and as JSON, at every depth."""
    fits = {"text": "a", "at": "2026-01-01T00:00:00"}
    for kind, wrap in ((app.Note, lambda x: x), (dict[str, list[app.Note]], lambda x: {"a": [x]})):
        declared = Declared(kind)
        assert declared.write(wrap(fits)) == wrap(fits)
        for note in ({**fits, "txt": "b"}, {"at": NAIVE, "txt": "b"}):
            with pytest.raises(Misfit, match="it would arrive as"):
                declared.write(wrap(note))


async def test_subclasses_of_numbers_arrive_as_their_base(queue: TaskQueue) -> None:
    class Count(int): ...

    class Share(float): ...

    builtin, loose = queue.task(app.builtin.function), queue.task(app.loose.function)
    async with harness(queue) as h:
        first = await builtin.enqueue(Count(3), Share(0.5))
        second = await loose.enqueue([Count(4)], Share(0.25))
        await h.run_until_idle()
        assert await first.result() == 3
        assert (await first.get()).payload == {"n": 3, "ratio": 0.5}
        assert await second.result() == [[4], 0.25]


def test_what_json_cannot_hold_inside_a_declared_type_is_refused() -> None:
    with pytest.raises(Misfit, match="it would arrive as"):
        Declared(dict[int, Any]).write({1: date(2026, 1, 1)})
    with pytest.raises(Misfit, match="cannot be compared with what would arrive"):
        Declared(Decimal).write(Decimal("sNaN"))


WRONG: list[tuple[str, Any, str]] = [
    ("builtin", {}, "no field 'n'"),
    ("builtin", {"n": "1"}, "payload.n is '1'"),
    ("builtin", {"n": 1, "z": 1}, "the field 'z'"),
    ("builtin", {"n": 1, "names": ["a", 2]}, r"payload.names\[1\]"),
    ("due_on", {"day": 5}, "payload.day is 5"),
    ("due_on", [1], "not an object with the fields: day"),
    ("each", {"when": "2026-01-01"}, "no field 'amount'"),
]


async def test_a_process_without_the_handler_checks_by_the_store(shared_url: str) -> None:
    """The command line and the API of a gateway enqueue in this way."""
    async with make(shared_url):
        other = TaskQueue(shared_url)
        for type, payload, why in WRONG:
            for call in (
                other.enqueue(type, payload),
                other.enqueue_many([{"type": type, "payload": payload}]),
                other.schedule("nightly", "@daily", type, payload),
            ):
                with pytest.raises(InvalidInput, match=f"'{type}' cannot be called.*{why}"):
                    await call
        assert await other.find_tasks() == []
        handle = await other.enqueue("due_on", {"day": "2026-01-01"})
        assert await handle.result(30) == "2026-01-02"
        assert await (await other.enqueue("loose", {"value": [1, None]})).result(30) == [
            [1, None],
            None,
        ]
        await other.stop()


async def test_a_new_definition_counts_at_once(shared_url: str) -> None:
    """Producers keep the types of other nodes for a minute: a refusal looks again."""

    async def old(n: int) -> int:
        return n

    async def new(n: str, more: int = 0) -> str:
        return n * more

    producer = TaskQueue(shared_url)
    for function, payload in ((old, {"n": 1}), (new, {"n": "x", "more": 2})):
        worker = TaskQueue(shared_url)
        worker.task(name="change")(function)
        async with worker:
            assert await (await producer.enqueue("change", payload)).result(30) in (1, "xx")
    await producer.stop()


def test_the_schema_accepts_what_the_handler_accepts() -> None:
    """Each payload of the round trips above, as JSON."""
    handler = next(each for each in app.tasks.definitions.handlers if each.type == "each")
    assert handler.config.arguments == {
        "properties": {
            "when": {"type": "string"},
            "amount": {},
            "raw": {"type": "string"},
            "numbers": {"type": "array", "items": {"type": "integer"}},
            "customer": {},
            "line": {"type": ["null", "object"]},
            "by_number": {"type": ["null", "object"]},
        },
        "required": ["amount", "customer", "numbers", "raw", "when"],
        "additionalProperties": False,
    }
