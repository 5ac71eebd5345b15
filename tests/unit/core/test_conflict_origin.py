"""The common base of a conflict, rebuilt from the events of the edits after it."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from holdfast.core import codec
from holdfast.core.edits import difference
from holdfast.core.event import Event, Position
from holdfast.core.exchange.origin import Origin, origin

SCALARS = st.integers(0, 3) | st.none() | st.text("ab", max_size=2)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), SCALARS)
PAYLOADS = OBJECTS | SCALARS


def event(version: int, kind: str, **data: Any) -> Event:
    return Event(Position("e", version), kind, float(version), "t", "mail", data, version=version)


def history(payloads: list[Any], metadata: list[dict[str, Any]]) -> list[Event]:
    """The events of a task with these contents, one version each."""
    dump = codec.dumps
    events = [event(1, "task.enqueued")]
    for nth in range(1, len(payloads)):
        data = difference(dump(payloads[nth - 1]), dump(payloads[nth]))
        meta = difference(dump(metadata[nth - 1]), dump(metadata[nth]))
        events.append(event(nth + 1, "task.edited", actor=f"u{nth}", metadata=meta, **data))
    return events


@given(st.lists(st.tuples(PAYLOADS, OBJECTS), min_size=1, max_size=6), st.data())
def test_the_base_is_the_content_of_its_version(
    contents: list[tuple[Any, dict[str, Any]]], data: st.DataObject
) -> None:
    payloads, metadata = [each[0] for each in contents], [each[1] for each in contents]
    events = history(payloads, metadata)
    base_version = data.draw(st.integers(1, len(contents)))
    server = {"payload": payloads[-1], "metadata": metadata[-1], "labels": ["x"]}
    client = {"metadata": dict.fromkeys("abcd", 0)}
    found = origin(server, client, base_version=base_version, version=len(contents), events=events)
    assert found.base == {
        "payload": payloads[base_version - 1],
        "metadata": metadata[base_version - 1],
        "labels": ["x"],
    }
    assert found.written_at == float(len(contents))


def test_what_is_not_kept_is_no_base() -> None:
    server = {"payload": {"n": 2}, "metadata": {}, "labels": []}
    long = [event(1, "task.enqueued"), event(2, "task.edited", actor="u", before_omitted=True)]
    cut = [event(3, "task.edited", actor="u", before={"n": 1})]
    assert origin(server, {}, base_version=1, version=2, events=long) == Origin(2.0, "u", None)
    assert origin(server, {}, base_version=1, version=3, events=cut) == Origin(3.0, "u", None)
    assert origin(server, {}, base_version=1, version=3, events=[]) == Origin()
    assert origin(server, {}, base_version=0, version=2, events=long).base is None


def test_labels_and_hidden_metadata_of_the_base() -> None:
    server = {"payload": 1, "metadata": {"a": 2}, "labels": ["new", "old"]}
    tags = {"added": ["new"], "removed": ["gone"]}
    meta = {"before": {"a": 1, "hidden": 7}}
    events = [event(1, "task.enqueued"), event(2, "task.edited", tags=tags, metadata=meta)]
    found = origin(server, {}, base_version=1, version=2, events=events)
    assert found.base == {"payload": 1, "metadata": {"a": 1}, "labels": ["gone", "old"]}
