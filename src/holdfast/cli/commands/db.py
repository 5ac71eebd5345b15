"""`holdfast db migrate`, `db status` and `db new-epoch`: operations on the whole database."""

from __future__ import annotations

from typing import Any, Final

from holdfast.app import TaskQueue
from holdfast.cli.confirm import confirmed
from holdfast.cli.options import COMMON, Common, DryRun, Yes
from holdfast.cli.output.printer import Printer
from holdfast.cli.session import check_local, shown_store, target, with_queue
from holdfast.errors import SchemaMismatch, StoreUnavailable
from holdfast.queue.check import Check
from holdfast.queue.checks import durability, schema, store

LOOKS = (store, schema, durability)
WOULD: Final = {
    "there is no": "make the tables",
    "which upgrades it": "upgrade the tables",
}
"""What `migrate` does about a store that is refused with these words. Other errors stay errors."""


def migrate(*, dry_run: DryRun = False, common: Common = COMMON) -> None:
    """Create the tables of the store, or upgrade them to this version."""

    async def work(queue: TaskQueue) -> Check:
        return await schema(queue, 0.0)

    check_local(common, "db migrate")
    if dry_run:
        _foresee_migrate(common)
        return
    text = with_queue(common, work, create=True).text
    Printer(common).one({"schema": text}, [("schema", text)], name="schema")


def status(*, common: Common = COMMON) -> None:
    """Show the schema, the durability and the feed of the database."""
    check_local(common, "db status")

    async def work(queue: TaskQueue) -> dict[str, Any]:
        found = {check.name: check.text for check in [await look(queue, 0.0) for look in LOOKS]}
        feed = (await queue.open()).store.feed
        head, oldest = await feed.head(), await feed.oldest()
        return {**found, "epoch": head.epoch, "head": str(head), "oldest": str(oldest)}

    where = shown_store(target(common).found.value)
    item = {"url": where, **with_queue(common, work)}
    Printer(common).one(item, list(item.items()), name=where)


async def _feed_of(queue: TaskQueue) -> dict[str, Any]:
    head = await (await queue.open()).store.feed.head()
    return {"epoch": head.epoch, "head": str(head)}


def _foresee_migrate(common: Common) -> None:
    """What `migrate` would do: make the tables, upgrade them, or nothing."""
    try:
        text = with_queue(common, lambda queue: schema(queue, 0.0)).text
        would = "do nothing"
    except (StoreUnavailable, SchemaMismatch) as error:
        text = str(error)
        found = [would for sign, would in WOULD.items() if sign in text]
        if not found:
            raise
        would = found[0]
    lines = [("would", would), ("found", text)]
    Printer(common, dry_run=True).one({"would": would, "found": text}, lines, name=would)


def new_epoch(*, yes: Yes = False, dry_run: DryRun = False, common: Common = COMMON) -> int | None:
    """Make every reader of the feed start over, e.g. after a SQLite file was restored from a backup."""
    check_local(common, "db new-epoch")
    question = "Every reader of the feed must read the state again afterwards. Go on?"
    if dry_run:
        item = with_queue(common, _feed_of)
        lines = [("epoch", f"would end: {item['epoch']}"), ("head", item["head"])]
        Printer(common, dry_run=True).one(item, lines, name=item["epoch"])
        return None
    if not confirmed(question, yes=yes, can_count=False):
        return 1

    async def work(queue: TaskQueue) -> dict[str, Any]:
        head = await queue.parts.feed.new_epoch()
        return {"epoch": head.epoch, "head": str(head)}

    item = with_queue(common, work)
    Printer(common).one(item, [("epoch", item["epoch"]), ("head", item["head"])], name="new epoch")
    return None
