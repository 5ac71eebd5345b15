"""`holdfast db migrate`, `db status` and `db new-epoch`: operations on the whole database."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli.confirm import confirmed
from holdfast.cli.options import COMMON, Common, Flag
from holdfast.cli.output.printer import Printer
from holdfast.cli.session import check_local, shown_store, target, with_queue
from holdfast.queue.checks import Check, durability, schema, store

LOOKS = (store, schema, durability)
Yes = Annotated[Flag, Parameter(name=("--yes", "-y"), help="Do not ask for confirmation.")]


def migrate(*, common: Common = COMMON) -> None:
    """Create the tables of the store, or upgrade them to this version."""

    async def work(queue: TaskQueue) -> Check:
        return await schema(queue, 0.0)

    check_local(common, "db migrate")
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


def new_epoch(*, yes: Yes = False, common: Common = COMMON) -> int | None:
    """Make every reader of the feed start over, e.g. after a SQLite file was restored from a backup."""
    check_local(common, "db new-epoch")
    question = "Every reader of the feed must read the state again afterwards. Go on?"
    if not confirmed(question, yes=yes):
        return 1

    async def work(queue: TaskQueue) -> dict[str, Any]:
        head = await queue.parts.feed.new_epoch()
        return {"epoch": head.epoch, "head": str(head)}

    item = with_queue(common, work)
    Printer(common).one(item, [("epoch", item["epoch"]), ("head", item["head"])], name="new epoch")
    return None
