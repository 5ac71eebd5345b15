"""Blocks: add, edit, lift, expire; the epoch of a project; those that count now."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.errors import BadSelector, UnknownHost
from holdfast.core.fleet.model import Block, BlockEffect, OnLift
from holdfast.errors import BatchTooLarge, Conflict, InvalidInput, NotFound, VersionConflict
from holdfast.fleet.blocks import scripts as block_scripts
from holdfast.fleet.blocks.blocks import Blocks, NewBlock
from holdfast.fleet.hosts.groups import Groups
from holdfast.fleet.hosts.hosts import Hosts
from holdfast.queue.by import By
from holdfast.store.audit import AuditStore
from holdfast.store.store import Store
from tests.conformance.fleet.support import BY, PROJECT, add_host, audited, block_epoch, events
from tests.statements import query

DAILY = {"rrule": "FREQ=DAILY;BYHOUR=2", "duration_seconds": 3_600, "timezone": "UTC"}


async def add(store: Store, **fields: Any) -> Block:
    new = {"reason": "disk swap", "host": None if "selector" in fields else "web-1", **fields}
    return await Blocks(store).add(PROJECT, NewBlock(**new), BY)


async def test_a_block_is_added_with_epoch_event_and_audit(store: Store) -> None:
    host = await add_host(store, "web-1")
    new = NewBlock(host="web-1", reason="disk swap", command_type="re*", effect="hold")
    block = await Blocks(store).add(PROJECT, new, audited("block"))
    assert (block.host_id, block.selector, block.owner) == (host.id, None, "user:ann")
    assert (block.effect, block.on_lift, block.version) == (BlockEffect.HOLD, OnLift.REQUEUE, 1)
    assert await Blocks(store).get(block.id) == block
    assert await block_epoch(store) == 1
    [event] = await events(store, "block.")
    assert event.kind == "block.added"
    assert (event.data["block"], event.data["host"]) == (block.id, host.id)
    assert len(await AuditStore(store).after(0, 10)) == 1
    by_id = await add(store, host=host.id)
    assert by_id.host_id == host.id


async def test_what_a_block_must_not_be_is_refused(store: Store) -> None:
    await add_host(store, "web-1")
    wrong: list[tuple[type[Exception], dict[str, Any]]] = [
        (UnknownHost, {"host": "none"}),
        (UnknownHost, {"selector": "web-[1-2]"}),
        (BadSelector, {"selector": "role="}),
        (BadSelector, {"selector": "@none"}),
        (InvalidInput, {"selector": "role=web", "host": "web-1"}),
        (InvalidInput, {"host": None}),
        (InvalidInput, {"reason": " "}),
        (InvalidInput, {"effect": "explode"}),
        (InvalidInput, {"expires_at": store.now()}),
        (InvalidInput, {"window": {"rrule": "FREQ=DAILY"}}),
        (InvalidInput, {"window": {**DAILY, "rrule": "FREQ=HOURLY"}}),
        (InvalidInput, {"window": {"a": object()}}),
    ]
    for error, fields in wrong:
        with pytest.raises(error):
            await add(store, **fields)
    assert await Blocks(store).list(PROJECT) == []
    assert await block_epoch(store) == 0


async def test_an_edit_and_a_lift_raise_the_epoch_once(store: Store) -> None:
    await add_host(store, "web-1")
    blocks = Blocks(store)
    block = await add(store)
    edited = await blocks.edit(block.id, BY, reason="longer", effect="hold", window=DAILY)
    assert (edited.reason, edited.effect, edited.version) == ("longer", BlockEffect.HOLD, 2)
    assert await blocks.edit(block.id, BY, reason="longer") == edited
    assert await block_epoch(store) == 2
    for wrong in ({"selector": "*"}, {"effect": "x"}, {"reason": ""}, {"command_type": 5}):
        with pytest.raises(InvalidInput):
            await blocks.edit(block.id, BY, **wrong)
    with pytest.raises(VersionConflict):
        await blocks.edit(block.id, By("user:ann", expected_version=1), window=None)
    lifted = await blocks.lift(block.id, By("user:bob", expected_version=2))
    assert (lifted.lifted_at, lifted.lifted_by, lifted.version) == (store.now(), "user:bob", 3)
    assert await blocks.lift(block.id, BY) == lifted
    assert await block_epoch(store) == 3
    with pytest.raises(Conflict, match="has ended"):
        await blocks.edit(block.id, BY, reason="again")
    with pytest.raises(NotFound):
        await blocks.lift("blk_none", BY)
    assert await blocks.list(PROJECT) == []
    assert await blocks.list(PROJECT, lifted=True) == [lifted]
    kinds = [event.kind for event in await events(store, "block.")]
    assert kinds == ["block.added", "block.changed", "block.lifted"]


async def test_active_blocks_are_read_again_only_after_a_change(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_host(store, "web-1")
    blocks = Blocks(store)
    block = await add(store)
    reads = []
    read = block_scripts.active

    def counted(project: str) -> Any:
        reads.append(project)
        return read(project)

    monkeypatch.setattr(block_scripts, "active", counted)
    assert await blocks.active(PROJECT) == [block]
    assert await blocks.active(PROJECT) == [block]
    assert reads == [PROJECT]
    assert await blocks.active("shop") == []
    # Another process changes it.
    edited = await Blocks(store).edit(block.id, BY, reason="other")
    assert await blocks.active(PROJECT) == [edited]
    await Blocks(store).lift(block.id, BY)
    assert await blocks.active(PROJECT) == []
    assert reads == [PROJECT, "shop", PROJECT, PROJECT]


async def test_a_block_ends_at_its_time_before_a_loop_notes_it(
    store: Store, clock: VirtualClock
) -> None:
    await add_host(store, "web-1")
    blocks = Blocks(store)
    ends = store.now() + 60
    block = await add(store, expires_at=ends)
    other = await add(store)
    assert await blocks.next_due() == ends
    assert await blocks.expire() == []
    clock.set(ends)
    assert await blocks.active(PROJECT) == [other]
    assert await blocks.next_due() == ends
    epoch = await block_epoch(store)
    with pytest.raises(Conflict):
        await blocks.edit(block.id, BY, expires_at=ends + 60)
    [expired] = await blocks.expire()
    assert (expired.id, expired.lifted_at, expired.lifted_by) == (block.id, ends, "expired")
    assert await block_epoch(store) == epoch + 1
    assert (await events(store, "block.expired"))[0].data["block"] == block.id
    assert await blocks.expire() == []
    assert await blocks.next_due() is None
    assert await blocks.lift(block.id, BY) == expired


async def test_windows_are_due_when_they_open_and_close(store: Store, clock: VirtualClock) -> None:
    host = await add_host(store, "web-1")
    blocks = Blocks(store)
    midnight = store.now() // 86_400 * 86_400 + 86_400
    clock.set(midnight)
    block = await add(store, window=DAILY)
    assert await blocks.next_due() == midnight + 7_200
    assert await blocks.of_hosts(PROJECT, [host]) == {host.id: []}
    clock.set(midnight + 7_200)
    assert await blocks.next_due() == midnight + 10_800
    assert await blocks.of_hosts(PROJECT, [host]) == {host.id: [block]}
    await add(store, expires_at=midnight + 9_000)
    assert await blocks.next_due() == midnight + 9_000


async def test_a_block_with_a_selector_is_about_the_hosts_that_it_selects(store: Store) -> None:
    web = await add_host(store, "web-1", labels={"role": "web"})
    db = await add_host(store, "db-1", labels={"role": "db"})
    await Groups(store).add(PROJECT, "front", "role=web", BY)
    blocks = Blocks(store)
    block = await add(store, selector="@front,db-1")
    assert await blocks.affected(block) == [db, web]
    alone = await add(store)
    assert await blocks.affected(alone) == [web]
    found = await blocks.of_hosts(PROJECT, [web, db])
    assert found == {web.id: [block, alone], db.id: [block]}
    with pytest.raises(Conflict, match=f"block {block.id} uses group 'front'"):
        await Groups(store).remove(PROJECT, "front", BY)
    epoch = await block_epoch(store)
    await Hosts(store).edit(db.id, BY, labels={"role": "web"})
    await add_host(store, "web-2", labels={"role": "web"})
    assert await block_epoch(store) == epoch + 2
    await Hosts(store).edit(db.id, BY, address="elsewhere")
    assert await block_epoch(store) == epoch + 2
    await blocks.lift(block.id, BY)
    await Groups(store).remove(PROJECT, "front", BY)


async def test_lists_have_pages_and_a_bound(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_scripts, "BLOCKS_MAX", 3)
    await add_host(store, "web-1")
    made = [await add(store) for _ in range(3)]
    with pytest.raises(BatchTooLarge):
        await add(store)
    blocks = Blocks(store)
    assert await blocks.list(PROJECT, limit=2) == made[:2]
    assert await blocks.list(PROJECT, after=made[1].id) == made[2:]
    await blocks.lift(made[0].id, BY)
    await add(store)
    assert len(await query(store, "holdfast.fleet:active_blocks", project=PROJECT)) == 3
