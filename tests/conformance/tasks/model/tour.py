"""A walk past every verb: what chance may leave out for many examples happens here once for certain."""

from __future__ import annotations

from holdfast.core.dependency import DependencyPolicy
from holdfast.core.task import Priority, Status
from tests.conformance.tasks.model.intervening import Intervening
from tests.conformance.tasks.model.machine import QUEUES
from tests.conformance.tasks.model.operating import Operating


class Machine(Intervening, Operating):
    """All rules."""


def tour(machine: Machine, batch: int) -> None:
    """All three are compared after each part."""
    machine.begin(batch=batch)
    for part in (
        _bring_in,
        _run,
        _fail_and_come_back,
        _limit,
        _operate,
        _intervene,
        _lose,
        _throw_away,
    ):
        part(machine)
        machine.all_three_agree()
    machine.teardown()


def _intervene(machine: Machine) -> None:
    for status in (Status.QUEUED, Status.PAUSED, Status.FAILED, Status.COMPLETED):
        machine.insert_and_claim()
        machine.force(number=0, status=status)
    machine.retry(number=0)
    machine.stall()
    machine.insert(priority=Priority.HIGH, queue="default", delay=5.0)
    for rule in (machine.retry, machine.hold, machine.reserve, machine.claim_reserved):
        for number in range(3):
            rule(number=number)
    for rule in (machine.get_stuck, machine.suspend, machine.unlock):
        machine.insert_and_claim()
        rule(number=0)


def _bring_in(machine: Machine) -> None:
    machine.schedule()
    machine.fire(times=2)
    machine.hold_schedule()
    machine.unschedule()
    machine.insert(priority=Priority.HIGH, queue="mail", delay=0.0)
    machine.claim_next(queues=QUEUES, node="y")
    machine.insert_plain(count=3, queue="default")
    for payload in (0, 0, 1):
        machine.repeat(payload=payload)
    machine.insert_alone(queue="default", delay=0.0)
    machine.insert_and_claim()
    machine.look(number=0)


def _run(machine: Machine) -> None:
    machine.beat(node="node-a")
    machine.report(number=0)
    machine.fail(number=0)
    machine.snooze(number=0)
    machine.release(number=0)
    machine.cancel(number=0)
    machine.claim(queues=QUEUES, node="x")
    machine.complete(number=0, count=2)
    machine.insert(priority=Priority.LOW, queue="default", delay=0.0)
    machine.claim_aged()
    machine.bury(number=0)


def _fail_and_come_back(machine: Machine) -> None:
    """Two parents die, come back one after the other, and their children with the second."""
    machine.insert_family(children=4)
    family = sorted(machine.model.status)[-7:]
    machine.claim(queues=QUEUES, node="y")
    machine.bury_all()
    machine.all_three_agree()
    for parent in family[:2]:
        machine.insert_child(first=0, second=0, policy=DependencyPolicy.FAIL, dead=True)
        dead = sorted(i for i, s in machine.model.status.items() if s is Status.FAILED)
        machine.replay(number=dead.index(parent))
        machine.all_three_agree()
    assert [machine.model.status[i] for i in family[2:]] == [Status.BLOCKED] * 5
    machine.insert_child(first=0, second=0, policy=DependencyPolicy.IGNORE, dead=True)
    machine.claim(queues=QUEUES, node="x")
    machine.complete(number=1, count=3)  # by `finish`; above by `finish_held`


def _limit(machine: Machine) -> None:
    machine.insert_limited(key="a", rate=True, count=3)
    machine.claim(queues=QUEUES, node="x")
    machine.wait(seconds=10.0)
    machine.open_gates()


def _operate(machine: Machine) -> None:
    machine.insert_plain(count=3, queue="default")
    machine.claim(queues=QUEUES, node="x")
    machine.pause(number=0)
    machine.resume(number=0)
    machine.pause_queue()
    machine.resume_queue()
    machine.insert(priority=Priority.NORMAL, queue="mail", delay=5.0)
    waiting = sorted(machine.model.status)
    machine.edit(number=len(waiting) - 1)
    machine.abort(number=len(waiting) - 1)


def _lose(machine: Machine) -> None:
    machine.insert_plain(count=2, queue="default")
    machine.claim(queues=QUEUES, node="x")
    machine.expire()
    machine.wait(seconds=10.0)
    machine.claim(queues=QUEUES, node="y")
    machine.stale(number=len(machine.old_claims) - 1)
    machine.bury_all()


def _throw_away(machine: Machine) -> None:
    machine.discard(number=0)
    machine.prune(dead=False)
    machine.prune(dead=True)
