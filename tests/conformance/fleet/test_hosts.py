"""Hosts: add, edit, remove, list, find, import."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.clock import VirtualClock
from holdfast.core.fleet.hosts.entry import LABELS_MAX, HostEntry
from holdfast.core.fleet.model import UNREAD, HostDriver, HostState
from holdfast.errors import (
    BatchTooLarge,
    Conflict,
    InvalidInput,
    NotFound,
    StoreBusy,
    VersionConflict,
)
from holdfast.fleet.hosts import hosts as use_cases, scripts as host_scripts
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.queue.by import By
from holdfast.store.audit import AuditStore
from holdfast.store.store import Store
from tests.conformance.fleet.support import BY, PROJECT, add_host, audited, block_epoch, events


async def test_a_host_is_added_with_an_event_and_an_audit_row(store: Store) -> None:
    hosts = Hosts(store)
    entry = HostEntry(name="web-1", driver="ssh", address="10.0.0.1", labels={"role": "web"})
    host = await hosts.add(PROJECT, entry, audited("host:web-1"))
    assert host.id.startswith("hst_")
    assert (host.driver, host.address, host.labels) == (HostDriver.SSH, "10.0.0.1", {"role": "web"})
    assert (host.state, host.version, host.facts) == (HostState.ACTIVE, 1, {})
    assert await hosts.get(PROJECT, "web-1") == host
    assert await hosts.get(PROJECT, host.id) == host
    assert await hosts.by_id(host.id) == host
    [event] = await events(store)
    assert event.kind == "host.added"
    data = {"host": host.id, "name": "web-1", "driver": "ssh", "returned": False}
    assert event.data == {**data, "actor": "user:ann"}
    [row] = await AuditStore(store).after(0, 10)
    assert row.subject == "host:web-1"


async def test_a_name_is_once_in_a_project(store: Store) -> None:
    host = await add_host(store, "web-1")
    other = await add_host(store, "web-1", "shop")
    assert other.id != host.id
    with pytest.raises(Conflict, match="exists"):
        await add_host(store, "web-1")
    with pytest.raises(NotFound):
        await Hosts(store).get("shop", host.id)


async def test_two_stores_add_the_same_host_at_once(store: Store) -> None:
    """The one that finds the name taken when it writes starts again, a few times."""
    ids, now = store.ids, store.now()
    host = host_scripts._made(ids, PROJECT, HostEntry(name="web-1"), now)
    await store.run(lambda *_: host_scripts._insert([host]))
    again = host_scripts._made(ids, PROJECT, HostEntry(name="web-1"), now)
    other = host_scripts._made(ids, PROJECT, HostEntry(name="web-2"), now)
    tries = [[again], [again], [other]]
    await store.run(lambda *_: host_scripts._insert(tries.pop(0)))
    assert tries == []
    with pytest.raises(StoreBusy, match="try again"):
        await store.run(lambda *_: host_scripts._insert([again]))
    done = await Hosts(store).import_(PROJECT, [HostEntry(name="web-1", address="a")], BY)
    assert (done.added, done.changed) == (0, 1)


async def test_an_edit_changes_what_it_names(store: Store, clock: VirtualClock) -> None:
    hosts = Hosts(store)
    host = await add_host(store, "web-1", labels={"role": "web", "rack": "1"}, address="a")
    clock.set(clock.now() + 5)
    edited = await hosts.edit(host.id, BY, labels={"rack": None, "zone": "z"}, state="cordoned")
    assert edited.labels == {"role": "web", "zone": "z"}
    assert (edited.address, edited.state, edited.version) == ("a", HostState.CORDONED, 2)
    assert edited.updated_at == host.updated_at + 5
    assert await hosts.by_id(host.id) == edited
    event = (await events(store))[-1]
    assert (event.kind, event.data["changed"]) == ("host.changed", ["labels", "state"])
    again = await hosts.edit(host.id, audited(), labels={"zone": "z"})
    assert again == edited
    assert len(await events(store)) == 2
    assert len(await AuditStore(store).after(0, 10)) == 1


async def test_an_edit_of_another_version_is_refused(store: Store) -> None:
    hosts = Hosts(store)
    host = await add_host(store, "web-1")
    await hosts.edit(host.id, By(expected_version=1), address="b")
    with pytest.raises(VersionConflict, match="at version 2, not 1") as caught:
        await hosts.edit(host.id, By(expected_version=1), address="c")
    assert caught.value.current == {"version": 2}
    with pytest.raises(VersionConflict):
        await hosts.remove(host.id, By(expected_version=1))
    with pytest.raises(NotFound):
        await hosts.edit("hst_none", BY, address="c")


async def test_a_removed_host_is_unknown_until_it_returns_with_its_id(store: Store) -> None:
    hosts = Hosts(store)
    host = await add_host(store, "web-1", labels={"role": "web"}, address="a")
    gone = await hosts.remove(host.id, BY)
    assert (gone.state, gone.version) == (HostState.GONE, 2)
    assert await hosts.remove(host.id, BY) == gone
    with pytest.raises(NotFound):
        await hosts.get(PROJECT, "web-1")
    with pytest.raises(NotFound, match="add it again"):
        await hosts.edit(host.id, BY, address="c")
    assert await hosts.list(PROJECT) == []
    assert await hosts.list(PROJECT, state="gone") == [gone]
    assert await hosts.pinned([host.id]) == {host.id: gone}
    back = await add_host(store, "web-1", driver="ssh")
    assert (back.id, back.version, back.state) == (host.id, 3, HostState.ACTIVE)
    assert (back.driver, back.labels, back.address) == (HostDriver.SSH, {}, "")
    kinds = [event.kind for event in await events(store)]
    assert kinds == ["host.added", "host.removed", "host.added"]
    assert (await events(store))[-1].data["returned"] is True


async def test_find_names_what_is_unknown(store: Store) -> None:
    hosts = Hosts(store)
    one, two = await add_host(store, "web-1"), await add_host(store, "web-2")
    other = await add_host(store, "web-9", "shop")
    gone = await add_host(store, "web-3")
    await hosts.remove(gone.id, BY)
    asked = ["web-2", one.id, "no", "web-3", other.id, "web-2", "web-9"]
    found = await hosts.find(PROJECT, asked)
    assert found.hosts == {"web-2": two, one.id: one}
    assert found.unknown == ["no", "web-3", other.id, "web-9"]
    assert await hosts.find(PROJECT, []) == host_scripts.FoundHosts({}, [])


async def test_lists_go_by_name_in_pages(store: Store) -> None:
    hosts = Hosts(store)
    for name in ("b", "B", "a-2", "c", "a-10", "Z"):
        await add_host(store, name)
    await add_host(store, "other", "shop")
    first = await hosts.list(PROJECT, limit=4)
    assert [host.name for host in first] == ["B", "Z", "a-10", "a-2"]
    rest = await hosts.list(PROJECT, after=first[-1].name, limit=4)
    assert [host.name for host in rest] == ["b", "c"]
    assert [host.name for host in await hosts.list(PROJECT, part="-")] == ["a-10", "a-2"]
    assert await hosts.list(PROJECT, state="cordoned") == []
    with pytest.raises(InvalidInput, match="state"):
        await hosts.list(PROJECT, state="x")


async def test_an_inventory_is_read_in_pages(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_scripts, "PAGE", 2)
    monkeypatch.setattr(host_scripts, "IDS_PAGE", 2)
    made = [await add_host(store, f"h{n}") for n in range(5)]
    await store.run(lambda *_: host_scripts.write_facts([(made[0].id, '{"os":"x"}')]))
    bare = await store.read(lambda: host_scripts.inventory(PROJECT, with_facts=False))
    assert bare == [replace(host, facts_json=UNREAD) for host in made]
    full = await store.read(lambda: host_scripts.inventory(PROJECT, with_facts=True))
    assert [host.facts for host in full] == [{"os": "x"}, {}, {}, {}, {}]
    assert (full[0].version, full[1:]) == (1, made[1:])
    assert len((await Hosts(store).find(PROJECT, [host.name for host in made])).hosts) == 5
    assert len(await Hosts(store).pinned([host.id for host in made])) == 5


async def test_an_import_adds_changes_and_leaves(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(use_cases, "IMPORT_BATCH", 2)
    hosts = Hosts(store)
    kept = await add_host(store, "h1", address="a", labels={"x": "y"})
    gone = await add_host(store, "h2")
    await hosts.remove(gone.id, BY)
    entries = [
        HostEntry(name="h1", labels={"x": "y"}),
        HostEntry(name="h2", labels={"role": "db"}),
        HostEntry(name="h3"),
        HostEntry(name="bad/name"),
        HostEntry(name="h3"),
        HostEntry(name="h4", driver="carrier-pigeon"),
        HostEntry(name="h5", state="gone"),
    ]
    done = await hosts.import_(PROJECT, entries, audited())
    assert (done.added, done.changed, done.unchanged, done.failed) == (2, 0, 1, 4)
    assert [error.nth for error in done.errors] == [3, 4, 5, 6]
    assert [host.name for host in await hosts.list(PROJECT)] == ["h1", "h2", "h3"]
    assert await hosts.get(PROJECT, "h1") == kept
    assert (await hosts.get(PROJECT, "h2")).id == gone.id
    assert len(await AuditStore(store).after(0, 10)) == 2
    again = await hosts.import_(PROJECT, entries[:3], audited())
    assert (again.added, again.changed, again.unchanged, again.errors) == (0, 0, 3, [])
    assert len(await AuditStore(store).after(0, 10)) == 2
    moved = await hosts.import_(PROJECT, [HostEntry(name="h1", address="b")], BY)
    assert moved.changed == 1


async def test_a_project_has_a_bound(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_scripts, "HOSTS_MAX", 2)
    hosts = Hosts(store)
    first = await add_host(store, "h1")
    await add_host(store, "h2")
    with pytest.raises(BatchTooLarge, match="at most 2"):
        await add_host(store, "h3")
    await hosts.remove(first.id, BY)
    await add_host(store, "h3")
    with pytest.raises(BatchTooLarge):
        await add_host(store, "h1")
    with pytest.raises(BatchTooLarge, match="the import has 3"):
        await hosts.import_(PROJECT, [HostEntry(name=f"i{n}") for n in range(3)], BY)


async def test_labels_have_a_bound_after_an_edit_too(store: Store) -> None:
    host = await add_host(store, "h1", labels={f"k{n}": "v" for n in range(LABELS_MAX)})
    with pytest.raises(InvalidInput, match="at most 100"):
        await Hosts(store).edit(host.id, BY, labels={"one-more": "v"})
    with pytest.raises(InvalidInput, match="which selectors use"):
        await Hosts(store).edit(host.id, BY, labels={"fact.os": None})


async def test_epoch_of_blocks_stays_without_blocks_with_a_selector(store: Store) -> None:
    host = await add_host(store, "h1")
    await Hosts(store).edit(host.id, BY, labels={"a": "b"})
    assert await block_epoch(store) == 0
