"""What the test asks of the site, each in a process (`drive.py`)."""

import asyncio
import json
import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import django
from django.core.management import call_command
from django.db import transaction
from django.test import TestCase
from django.utils import timezone
from shop.models import Order
from shop.tasks import NoSuchOrder, announce, count, pay, remind, report

from holdfast.django import interface, outbox
from holdfast.django.models import OutboxEntry
from holdfast.errors import InvalidInput, PayloadTooLarge

backend = interface.tasks.task_backends["default"]
Status = interface.ResultStatus


class Abort(Exception):
    pass


def ids_in_store() -> set[str]:
    return {task.id for task in backend.queue.sync.find_tasks(limit=1_000)}


def prepare() -> dict[str, str]:
    """Everything that happens before a worker runs."""
    call_command("migrate", verbosity=0)
    call_command("check", fail_level="WARNING")
    assert not call_command(
        "makemigrations", "--check", "--dry-run", "holdfast_django", verbosity=0
    )
    seen: list[str] = []
    interface.signals.task_enqueued.connect(
        lambda task_result, **_: seen.append(task_result.id), weak=False
    )
    direct = pay.enqueue("direct")
    assert direct.status == Status.READY
    assert ids_in_store() == {direct.id}, "outside a transaction it is enqueued at once"
    with transaction.atomic():
        Order.objects.create(name="kept")
        kept = pay.enqueue("kept", amount=3)
        assert ids_in_store() == {direct.id}, "nothing before the commit"
        assert backend.get_result(kept.id).status == Status.READY
    assert ids_in_store() == {direct.id, kept.id}, "and it is there after it"
    assert not OutboxEntry.objects.exists()
    undone = None
    try:
        with transaction.atomic():
            Order.objects.create(name="undone")
            undone = pay.enqueue("undone")
            raise Abort
    except Abort:
        pass
    assert undone is not None
    assert ids_in_store() == {direct.id, kept.id}, "a rollback takes the task with it"
    try:
        backend.get_result(undone.id)
    except interface.TaskResultDoesNotExist:
        pass
    else:
        raise AssertionError("the task was rolled back")
    with transaction.atomic():
        outer = count.enqueue()
        try:
            with transaction.atomic():
                inner = count.enqueue()
                raise Abort
        except Abort:
            pass
    assert outer.id in ids_in_store()
    assert inner.id not in ids_in_store(), "a savepoint that is rolled back, too"
    try:
        with transaction.atomic():
            pay.enqueue("x" * 300_000)
    except PayloadTooLarge:
        pass
    else:
        raise AssertionError("refused before the commit")
    century = timezone.now() + timedelta(days=36_500)
    try:
        with transaction.atomic():
            pay.using(run_after=century).enqueue("late")
    except InvalidInput:
        pass
    else:
        raise AssertionError("refused before the commit")
    by_hand()
    with transaction.atomic():  # as in a TestCase
        with TestCase.captureOnCommitCallbacks(execute=True):
            tested = count.enqueue()
        assert tested.id in ids_in_store()
        assert not OutboxEntry.objects.exists()
    made = asyncio.run(count.aenqueue())
    mail = remind.enqueue("ann")
    later = remind.using(
        run_after=timezone.now() + timedelta(hours=1), queue_name="default"
    ).enqueue("x")
    stored = {task.id: task for task in backend.queue.sync.find_tasks(limit=1_000)}
    assert (stored[mail.id].queue, stored[mail.id].priority.name) == ("mail", "CRITICAL")
    assert stored[later.id].due_at - stored[later.id].created_at > 3_000
    assert pay.get_result(kept.id).kwargs == {"amount": 3}
    assert len(seen) == 11
    return {
        "direct": direct.id,
        "kept": kept.id,
        "count": outer.id,
        "acount": made.id,
        "mail": mail.id,
        "later": later.id,
        "report": report.enqueue().id,
        "announce": announce.enqueue().id,
    }


def by_hand() -> None:
    """Transactions without `atomic`."""
    transaction.set_autocommit(False)
    undone = count.enqueue()
    transaction.rollback()
    kept = count.enqueue()
    assert kept.id not in ids_in_store(), "nothing before the commit"
    transaction.commit()
    transaction.set_autocommit(True)
    [row] = OutboxEntry.objects.all()
    assert row.task_id == kept.id
    outbox.forward(backend.queue, "default", row)
    assert kept.id in ids_in_store()
    assert undone.id not in ids_in_store()


def crash() -> dict[str, str]:
    """The process ends after the commit, before the store has the task."""
    with transaction.atomic():
        Order.objects.create(name="crashed")
        transaction.on_commit(lambda: _end(crashed.id))
        crashed = pay.enqueue("crashed")
    raise AssertionError("unreachable")


def _end(task_id: str) -> None:
    print(json.dumps({"crashed": task_id}), flush=True)
    os._exit(0)


def age() -> dict[str, str]:
    """Makes the rows of the outbox old enough for a worker to forward them."""
    old = timezone.now() - timedelta(minutes=1)
    [row] = OutboxEntry.objects.all()
    # Before it in line: more than a page of those that the store refuses, which must not hold up the others.
    requests = ['{"type": "none", "option": 1}', "no JSON", *['{"type": "none"}'] * outbox.PAGE]
    OutboxEntry.objects.bulk_create(
        OutboxEntry(id=-n, task_id=f"refused-{n}", backend="default", request_json=request)
        for n, request in enumerate(requests, 1)
    )
    OutboxEntry.objects.update(created_at=old)
    assert row.task_id not in ids_in_store()
    assert backend.get_result(row.task_id).status == Status.READY
    return {}


def results(ids: dict[str, str]) -> dict[str, Any]:
    """After the worker has run everything."""
    for name in ("kept", "count", "acount", "mail", "direct", "report", "announce"):
        backend.queue.sync.wait_task(ids[name], timeout=60)
    while backend.queue.sync.get_task(ids["crashed"]) is None:
        backend.queue.sync.wait_task(pay.enqueue("kept").id, timeout=60)
    backend.queue.sync.wait_task(ids["crashed"], timeout=60)
    kept = pay.get_result(ids["kept"])
    assert kept.status == Status.SUCCESSFUL
    assert kept.return_value == {"name": "kept", "amount": 3}
    assert kept.attempts == len(kept.worker_ids) == 1
    assert kept.enqueued_at <= kept.started_at <= kept.finished_at
    assert kept.errors == []
    failed = pay.get_result(ids["direct"])
    assert failed.status == Status.FAILED
    assert failed.attempts == 2
    [error] = failed.errors
    assert error.exception_class is NoSuchOrder
    assert "raise NoSuchOrder(name)" in error.traceback
    assert backend.get_result(ids["count"]).return_value == 2
    assert backend.get_result(ids["mail"]).return_value == [1, ids["mail"], "ann"]
    assert asyncio.run(remind.aget_result(ids["later"])).status == Status.READY
    assert backend.get_result(ids["crashed"]).status == Status.SUCCESSFUL, "the worker forwarded it"
    assert OutboxEntry.objects.count() == outbox.PAGE + 2, "those that were refused"
    reported = backend.queue.sync.get_task(ids["report"])
    assert reported is not None
    assert reported.attempts == 1, "its work is done: another attempt would repeat it"
    assert backend.get_result(ids["report"]).errors[0].exception_class.__name__ == (
        "UnserialisablePayload"
    )
    announced = backend.get_result(ids["announce"])
    assert (announced.status, announced.attempts) == (Status.SUCCESSFUL, 1)
    fresh = pay.enqueue("kept")
    backend.queue.sync.wait_task(fresh.id, timeout=60)
    fresh.refresh()
    assert fresh.is_finished
    assert set(Order.objects.filter(is_paid=True).values_list("name", flat=True)) == {
        "kept",
        "crashed",
    }
    return {"interface": interface.ROOT, "django": django.get_version()}


STEPS: dict[str, Callable[..., dict[str, Any]]] = {
    "prepare": prepare,
    "crash": crash,
    "age": age,
    "results": results,
}
