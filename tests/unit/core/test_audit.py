"""The audit chain: every change of its rows is found."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from holdfast.core.audit import (
    EMPTY,
    AuditEntry,
    AuditHead,
    AuditRow,
    canonical,
    next_row,
    row_hash,
    verify,
)

names = st.text(st.characters(codec="utf-8"), max_size=5)
versions = st.none() | st.integers(0, 9)
entries = st.builds(
    AuditEntry,
    at=st.floats(0, 2e9),
    actor=names,
    operation=names,
    project=names,
    subject=names,
    reason=names,
    before_version=versions,
    after_version=versions,
    detail_json=st.sampled_from(["{}", '{"a":1}', '{"a": 1}']),
    request_id=names,
)
HASHES = {"hash", "prev_hash"}
FIELDS = [name for name in AuditRow.__struct_fields__ if name not in HASHES]


def chained(each: list[AuditEntry], head: AuditHead = EMPTY) -> list[AuditRow]:
    rows = []
    for entry in each:
        rows.append(next_row(head, entry))
        head = rows[-1].head
    return rows


chains = st.lists(entries, min_size=1, max_size=6).map(chained)
replace: Any = msgspec.structs.replace


def other(value: object) -> object:
    """Another value of the same type."""
    match value:
        case None:
            return 0
        case str():
            return value + "x"
        case float():
            return value + 1.0
        case _:
            return None if value == 9 else 9


@given(chains, st.integers(0, 6))
def test_a_chain_is_whole_page_by_page(rows: list[AuditRow], cut: int) -> None:
    assert verify(rows, EMPTY, rows[-1].head) is None
    first, second = rows[:cut], rows[cut:]
    middle = first[-1].head if first else EMPTY
    assert verify(first, EMPTY) is None
    assert verify(second, middle, rows[-1].head) is None
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))


@given(chains, st.data())
def test_a_changed_row_is_found(rows: list[AuditRow], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(rows) - 1))
    field = data.draw(st.sampled_from(AuditRow.__struct_fields__))
    changed = replace(rows[at], **{field: other(getattr(rows[at], field))})
    tampered = [*rows[:at], changed, *rows[at + 1 :]]
    assert verify(tampered, EMPTY, rows[-1].head) == at + 1


@given(chains, st.data())
def test_a_changed_row_with_a_new_hash_is_found(rows: list[AuditRow], data: st.DataObject) -> None:
    """At the next row, whose hash covers the old one, or at the head."""
    at = data.draw(st.integers(0, len(rows) - 1))
    field = data.draw(st.sampled_from([name for name in FIELDS if name != "seq"]))
    changed = replace(rows[at], **{field: other(getattr(rows[at], field))})
    changed = replace(changed, hash=row_hash(changed))
    tampered = [*rows[:at], changed, *rows[at + 1 :]]
    assert verify(tampered, EMPTY, rows[-1].head) == min(at + 2, len(rows))


@given(chains, st.data())
def test_removed_rows_are_found(rows: list[AuditRow], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(rows) - 1))
    stop = data.draw(st.integers(start + 1, len(rows)))
    assert verify(rows[:start] + rows[stop:], EMPTY, rows[-1].head) == start + 1


@given(chains, chains, st.data())
def test_an_inserted_row_is_found(
    rows: list[AuditRow], others: list[AuditRow], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(rows)))
    before = rows[at - 1].head if at else EMPTY
    entry = data.draw(entries)
    for inserted in (data.draw(st.sampled_from(rows + others)), next_row(before, entry)):
        if at < len(rows) and inserted == rows[at]:
            continue  # its second copy follows it: see the next test
        assert verify([*rows[:at], inserted, *rows[at:]], EMPTY, rows[-1].head) is not None


@given(chains, st.data())
def test_a_repeated_row_is_found(rows: list[AuditRow], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(rows) - 1))
    assert verify([*rows[: at + 1], *rows[at:]], EMPTY, rows[-1].head) == at + 2


@given(chains, st.randoms(use_true_random=False))
def test_another_order_is_found(rows: list[AuditRow], random: Any) -> None:
    moved = list(rows)
    random.shuffle(moved)
    answer = verify(moved, EMPTY, rows[-1].head)
    assert (answer is None) is (moved == rows)


@given(chains, entries)
def test_a_row_behind_the_head_is_found(rows: list[AuditRow], entry: AuditEntry) -> None:
    added = next_row(rows[-1].head, entry)
    assert verify([*rows, added], EMPTY, rows[-1].head) == added.seq
    assert verify([], rows[-1].head, EMPTY) is not None


def test_a_chain_that_was_replaced_is_found_by_its_head() -> None:
    entry = AuditEntry(
        at=1.0, actor="user:a", operation="tasks.force", project="default", subject="t"
    )
    rows = chained([entry, entry])
    forged = chained([replace(entry, actor="user:b"), entry])
    assert verify(forged, EMPTY) is None
    assert verify(forged, EMPTY, rows[-1].head) == 2


def test_a_value_that_json_lacks_is_a_wrong_row() -> None:
    entry = AuditEntry(
        at=1.0, actor="user:a", operation="tasks.force", project="default", subject="t"
    )
    rows = chained([entry])
    assert verify([replace(rows[0], at=float("nan"))], EMPTY) == 1


def test_the_hash_is_written_down() -> None:
    """The form of a row is part of the format: another form would break stored chains."""
    entry = AuditEntry(
        at=5, actor="user:a", operation="tasks.force", project="default", subject="t1", reason="é"
    )
    row = next_row(EMPTY, entry)
    text = (
        '{"actor":"user:a","after_version":null,"at":5.0,"before_version":null,"detail_json":"{}",'
        '"operation":"tasks.force","project":"default","reason":"é","request_id":"","seq":1,"subject":"t1"}'
    )
    assert canonical(row) == text
    assert row.prev_hash == "0" * 64
    assert row.hash == hashlib.sha256(("0" * 64 + text).encode()).hexdigest()
    assert len(AuditRow.__struct_fields__) == len(FIELDS) + len(HASHES)


@pytest.mark.parametrize("head", [AuditHead(3, "ab"), AuditHead(0, "ab")])
def test_an_empty_chain_has_the_empty_head(head: AuditHead) -> None:
    assert verify([], EMPTY, EMPTY) is None
    assert verify([], EMPTY, head) is not None
