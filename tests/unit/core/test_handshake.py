"""The handshake: its table, and laws over whole pages."""

from __future__ import annotations

import hashlib
from itertools import product

import pytest
from hypothesis import given, strategies as st

from holdfast.core.exchange.content_hash import content_hash
from holdfast.core.exchange.handshake import (
    HANDSHAKE_ROWS,
    ClientEntry,
    DivergenceKind,
    Handshake,
    Listed,
    Presence,
    ServerEntry,
    Standing,
    Tombstone,
    compare,
    row_of,
)
from holdfast.core.task import Status

D, L = DivergenceKind, Listed
SERVER = ServerEntry(5, "h1:s")
GONE = Tombstone(4, 100.0)
ids = st.sampled_from([f"task-{n}" for n in range(6)])
hashes = st.sampled_from([None, "h1:a", "h1:b"])
clients = st.dictionaries(ids, st.builds(ClientEntry, st.integers(0, 3), st.booleans(), hashes))
servers = st.dictionaries(ids, st.builds(ServerEntry, st.integers(1, 3), hashes))
tombstones = st.dictionaries(ids, st.builds(Tombstone, st.integers(1, 3), st.floats(0, 9)))

EXAMPLES = [
    (ClientEntry(5), SERVER, None, {L.IN_SYNC}, None),
    (ClientEntry(5, hash="h1:s"), SERVER, None, {L.IN_SYNC}, None),
    (ClientEntry(5, hash="h1:c"), SERVER, None, {L.CONFLICTS, L.NEEDS_PULL}, D.DIVERGED),
    (ClientEntry(5, True, "h1:c"), SERVER, None, {L.NEEDS_PUSH}, None),
    (ClientEntry(3, hash="h1:c"), SERVER, None, {L.NEEDS_PULL}, None),
    (ClientEntry(3, True), SERVER, None, {L.CONFLICTS, L.NEEDS_PULL}, D.DIVERGED),
    (ClientEntry(6), SERVER, None, {L.CONFLICTS, L.NEEDS_PUSH, L.NEEDS_PULL}, D.AHEAD),
    (ClientEntry(6, True), SERVER, None, {L.CONFLICTS, L.NEEDS_PUSH, L.NEEDS_PULL}, D.AHEAD),
    (ClientEntry(4), None, GONE, {L.DELETED}, None),
    (ClientEntry(4, True), None, GONE, {L.DELETED}, None),
    (ClientEntry(0, True), None, None, {L.NEEDS_PUSH}, None),
    (ClientEntry(0), None, None, {L.NEEDS_PUSH}, None),
    (ClientEntry(2), None, None, {L.DELETED}, None),
    (ClientEntry(2, True), None, None, {L.CONFLICTS}, D.UNKNOWN),
    (ClientEntry(5), SERVER, GONE, {L.IN_SYNC}, None),
]


@pytest.mark.parametrize(("entry", "server", "tombstone", "lists", "kind"), EXAMPLES)
def test_a_task_is_listed_by_the_table(
    entry: ClientEntry,
    server: ServerEntry | None,
    tombstone: Tombstone | None,
    lists: set[Listed],
    kind: DivergenceKind | None,
) -> None:
    answer = compare(
        {"t": entry},
        {"t": server} if server else {},
        {"t": tombstone} if tombstone else {},
    )
    assert listed(answer, "t") == lists
    assert [divergence.kind for divergence in answer.conflicts] == ([kind] if kind else [])
    assert answer.new_tasks == ()


def test_exactly_one_row_matches_every_combination() -> None:
    for presence, standing, is_dirty, differs in product(
        Presence, Standing, (False, True), (False, True)
    ):
        rows = [
            row
            for row in HANDSHAKE_ROWS
            if row.presence is presence
            and row.standing in (None, standing)
            and row.is_dirty in (None, is_dirty)
            and row.has_other_hash in (None, differs)
        ]
        # Versions start at 0, which a server without the task counts as its own.
        is_possible = (presence, standing) != (Presence.UNKNOWN, Standing.BEHIND)
        assert len(rows) == is_possible


def test_the_examples_reach_every_row() -> None:
    rows = [row_of(entry, server, tombstone) for entry, server, tombstone, _, _ in EXAMPLES]
    assert [row for row in HANDSHAKE_ROWS if row not in rows] == []


@given(clients, servers, tombstones)
def test_every_task_of_the_client_is_answered_and_every_other_is_new_or_deleted(
    client: dict[str, ClientEntry],
    server: dict[str, ServerEntry],
    gone: dict[str, Tombstone],
) -> None:
    answer = compare(client, server, gone)
    for id, entry in client.items():
        row = row_of(entry, server.get(id), gone.get(id))
        assert listed(answer, id) == row.lists != set()
    assert set(answer.new_tasks) == server.keys() - client.keys()
    unseen = gone.keys() - client.keys() - server.keys()
    assert {each.task_id for each in answer.deleted} - client.keys() == unseen


@given(clients, servers, tombstones)
def test_a_task_in_sync_is_in_no_other_list(
    client: dict[str, ClientEntry],
    server: dict[str, ServerEntry],
    gone: dict[str, Tombstone],
) -> None:
    answer = compare(client, server, gone)
    for id in answer.in_sync:
        assert listed(answer, id) == {L.IN_SYNC}
        assert id not in answer.new_tasks
        assert client[id].version == server[id].version
        assert not client[id].is_dirty


@given(clients, servers, tombstones)
def test_a_client_that_is_only_behind_has_no_conflict(
    client: dict[str, ClientEntry],
    server: dict[str, ServerEntry],
    gone: dict[str, Tombstone],
) -> None:
    diverged = {divergence.task_id for divergence in compare(client, server, gone).conflicts}
    for id, entry in client.items():
        if id in server and entry.version < server[id].version:
            assert (id in diverged) == entry.is_dirty


@given(clients, servers, tombstones)
def test_a_list_names_a_task_once(
    client: dict[str, ClientEntry],
    server: dict[str, ServerEntry],
    gone: dict[str, Tombstone],
) -> None:
    answer = compare(client, server, gone)
    deleted = tuple(each.task_id for each in answer.deleted)
    conflicts = tuple(each.task_id for each in answer.conflicts)
    for names in (answer.needs_pull, answer.needs_push, answer.new_tasks, deleted, conflicts):
        assert len(set(names)) == len(names)


def test_a_deleted_task_names_its_tombstone_or_the_version_of_the_client() -> None:
    answer = compare({"a": ClientEntry(2), "b": ClientEntry(3)}, {}, {"a": GONE, "c": GONE})
    assert [(d.task_id, d.version, d.deleted_at) for d in answer.deleted] == [
        ("a", 4, 100.0),
        ("b", 3, None),
        ("c", 4, 100.0),
    ]


def listed(answer: Handshake, id: str) -> set[Listed]:
    """The lists that name a task."""
    names = {
        L.IN_SYNC: answer.in_sync,
        L.NEEDS_PULL: answer.needs_pull,
        L.NEEDS_PUSH: answer.needs_push,
        L.CONFLICTS: [divergence.task_id for divergence in answer.conflicts],
        L.DELETED: [deleted.task_id for deleted in answer.deleted],
    }
    return {name for name, tasks in names.items() if id in tasks}


def hashed(**fields: object) -> str:
    values: dict[str, object] = {
        "id": "task-1",
        "type": "external",
        "status": Status.QUEUED,
        "payload": {"b": [1, 2.5], "a": None},
        "result": None,
        "metadata": {"k": 1},
        "labels": ["nightly", "big"],
    }
    return content_hash(**{**values, **fields})  # type: ignore[arg-type]


def test_a_content_hash_is_the_digest_of_canonical_json() -> None:
    """Clients compute it too: the text and the digest never change."""
    text = (
        '{"id":"task-1","labels":["big","nightly"],"metadata":{"k":1},'
        '"payload":{"a":null,"b":[1,2.5]},"result":null,"status":"queued","type":"external"}'
    )
    assert hashed() == f"h1:{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"
    assert hashed() == "h1:d1e50e74475011eb643e032c89f5f665"


def test_a_content_hash_does_not_depend_on_how_the_content_is_written() -> None:
    assert hashed(labels=["big", "nightly", "big"]) == hashed()
    assert hashed(payload={"a": None, "b": [1.0, 2.5]}) == hashed()
    assert hashed(payload={"a": None, "b": (1, 2.5)}) == hashed()


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "task-2"},
        {"type": "other"},
        {"status": Status.PAUSED},
        {"payload": {"b": [1, 2.5]}},
        {"payload": {"b": [True, 2.5], "a": None}},
        {"result": 0},
        {"metadata": {}},
        {"labels": ["nightly"]},
    ],
)
def test_a_content_hash_covers_every_field(fields: dict[str, object]) -> None:
    assert hashed(**fields) != hashed()
