"""Groups, and hosts by selectors."""

from __future__ import annotations

import pytest

from holdfast.core.errors import BadSelector, UnknownHost
from holdfast.core.fleet.model import UNREAD
from holdfast.errors import BatchTooLarge, Conflict, InvalidInput, NotFound, VersionConflict
from holdfast.fleet.hosts import groups as use_cases, scripts as host_scripts
from holdfast.fleet.hosts.groups import Groups
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.queue.by import By
from holdfast.store.audit import AuditStore
from holdfast.store.store import Store
from tests.conformance.fleet.support import BY, PROJECT, add_host, audited, block_epoch, events


async def fill(store: Store) -> None:
    for n in range(1, 5):
        await add_host(store, f"web-{n}", labels={"role": "web", "odd": str(n % 2)})
    await add_host(store, "db-1", labels={"role": "db"})
    await add_host(store, "web-9", "shop", labels={"role": "web"})


async def names(store: Store, selector: str) -> list[str]:
    return [host.name for host in await Hosts(store).select(PROJECT, selector)]


async def test_a_selector_selects_the_hosts_of_its_project(store: Store) -> None:
    await fill(store)
    assert await names(store, "role=web!web-2") == ["web-1", "web-3", "web-4"]
    assert await names(store, "*&odd=1,db-1") == ["db-1", "web-1", "web-3"]
    gone = await Hosts(store).get(PROJECT, "web-4")
    await Hosts(store).remove(gone.id, BY)
    assert await names(store, "role=web") == ["web-1", "web-2", "web-3"]
    with pytest.raises(UnknownHost, match="web-4"):
        await names(store, "web-[3-4]")
    with pytest.raises(BadSelector):
        await names(store, "role=web&(")


async def test_facts_are_read_for_selectors_that_ask_for_them(store: Store) -> None:
    await fill(store)
    host = await Hosts(store).get(PROJECT, "web-1")
    await store.run(lambda *_: host_scripts.write_facts([(host.id, '{"os":"linux"}')]))
    [found] = await Hosts(store).select(PROJECT, "web-1")
    assert found.facts_json == UNREAD
    [found] = await Hosts(store).select(PROJECT, "fact.os=linux")
    assert found.facts == {"os": "linux"}
    await Groups(store).add(PROJECT, "linux", "fact.os=linux", BY)
    assert await names(store, "*!@linux") == ["db-1", "web-2", "web-3", "web-4"]


async def test_a_list_by_selector_has_pages_and_facts(store: Store) -> None:
    await fill(store)
    hosts = Hosts(store)
    host = await hosts.get(PROJECT, "web-1")
    await store.run(lambda *_: host_scripts.write_facts([(host.id, '{"os":"linux"}')]))
    page = await hosts.list(PROJECT, selector="role=web", limit=3)
    assert [host.name for host in page] == ["web-1", "web-2", "web-3"]
    assert page[0].facts == {"os": "linux"}
    page = await hosts.list(PROJECT, selector="role=web", limit=3, after="web-3")
    assert [host.name for host in page] == ["web-4"]
    with pytest.raises(InvalidInput, match="stands alone"):
        await hosts.list(PROJECT, selector="*", state="active")


async def test_a_group_is_added_changed_and_removed(store: Store) -> None:
    await fill(store)
    groups = Groups(store)
    group = await groups.add(PROJECT, "odd", "odd=1", audited())
    assert await names(store, "@odd") == ["web-1", "web-3"]
    assert await groups.get(PROJECT, "odd") == group
    with pytest.raises(Conflict, match="exists"):
        await groups.add(PROJECT, "odd", "odd=1", BY)
    changed = await groups.edit(PROJECT, "odd", "odd=0", By("user:ann", expected_version=1))
    assert (changed.selector, changed.version) == ("odd=0", 2)
    assert await names(store, "@odd") == ["web-2", "web-4"]
    with pytest.raises(VersionConflict):
        await groups.edit(PROJECT, "odd", "odd=0", By("user:ann", expected_version=1))
    await groups.remove(PROJECT, "odd", audited())
    with pytest.raises(NotFound):
        await groups.get(PROJECT, "odd")
    with pytest.raises(BadSelector):
        await names(store, "@odd")
    kinds = [event.kind for event in await events(store, "group.")]
    assert kinds == ["group.added", "group.changed", "group.removed"]
    assert len(await AuditStore(store).after(0, 10)) == 2
    assert await block_epoch(store) == 3


async def test_groups_have_no_cycle_and_no_unknown_member(store: Store) -> None:
    groups = Groups(store)
    await groups.add(PROJECT, "a", "role=web", BY)
    await groups.add(PROJECT, "b", "@a,role=db", BY)
    for name, selector in (("a", "@b"), ("a", "@a"), ("b", "@none")):
        with pytest.raises(BadSelector):
            await groups.edit(PROJECT, name, selector, BY)
    with pytest.raises(BadSelector):
        await groups.add(PROJECT, "c", "role=", BY)
    with pytest.raises(InvalidInput, match="no name of a group"):
        await groups.add(PROJECT, "c c", "role=web", BY)
    with pytest.raises(Conflict, match="group 'b' uses group 'a'"):
        await groups.remove(PROJECT, "a", BY)
    await groups.remove(PROJECT, "b", BY)
    await groups.remove(PROJECT, "a", BY)
    assert await groups.list(PROJECT) == []


async def test_a_project_has_a_bound_of_groups(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(use_cases, "GROUPS_MAX", 1)
    groups = Groups(store)
    await groups.add(PROJECT, "a", "role=web", BY)
    await groups.add("shop", "a", "role=web", BY)
    with pytest.raises(BatchTooLarge):
        await groups.add(PROJECT, "b", "role=web", BY)
    await groups.edit(PROJECT, "a", "role=db", BY)


async def test_memberships_and_pages(store: Store) -> None:
    await fill(store)
    groups = Groups(store)
    await groups.add(PROJECT, "web", "role=web", BY)
    await groups.add(PROJECT, "all", "@web,db-1,no-such-host", BY)
    await groups.add(PROJECT, "none", "role=x", BY)
    hosts = await Hosts(store).list(PROJECT, part="1")
    found = await groups.memberships(PROJECT, hosts)
    assert [found[host.id] for host in hosts] == [["all"], ["all", "web"]]
    first = await groups.list(PROJECT, limit=2)
    assert [group.name for group in first] == ["all", "none"]
    assert [group.name for group in await groups.list(PROJECT, after="none")] == ["web"]
