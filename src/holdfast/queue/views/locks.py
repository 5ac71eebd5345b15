"""Locks in JSON: `LockRow` in a list, `LockView` with waiters and acts."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.client import admin_models as models
from holdfast.core.lease import Audit
from holdfast.primitives.locks import LeaseInfo
from holdfast.primitives.locks.locks import WaiterInfo
from holdfast.queue.views.values import View, at, known_time, parsed, shown


def lock(of: LeaseInfo) -> View:
    """A lock in a list."""
    return shown(models.LockRow(**_fields(of)))


def whole_lock(of: LeaseInfo) -> View:
    """A lock with its waiters and the acts of operators."""
    waiters = [models.WaiterView(**waiter._asdict()) for waiter in of.waiters]
    return shown(models.LockView(**_fields(of), waiters=waiters, audit=[*map(_act, of.audit)]))


def lock_act(of: Audit) -> View:
    """A change that an operator made to a lock."""
    return shown(_act(of))


def read_lock(view: View) -> LeaseInfo:
    """The lock of a view, or of a row of a list."""
    given = parsed(view, models.LockView)
    return LeaseInfo(
        resource=given.resource,
        fence=given.fence or 0,
        is_held=given.held,
        owner=given.owner or "",
        claim_id=given.claim_id,
        ttl_seconds=given.ttl_seconds or 0.0,
        held_seconds=given.held_seconds or 0.0,
        seconds_left=given.remaining_seconds or 0.0,
        waiters=tuple(WaiterInfo(**msgspec.structs.asdict(one)) for one in given.waiters),
        audit=tuple(map(_read_act, given.audit)),
    )


def read_lock_act(view: View) -> Audit:
    return _read_act(parsed(view, models.LockAct))


def _read_act(of: models.LockAct) -> Audit:
    return Audit(**{**msgspec.structs.asdict(of), "at": known_time(of.at)})


def _act(of: Audit) -> models.LockAct:
    return models.LockAct(**{**of._asdict(), "at": at(of.at)})


def _fields(of: LeaseInfo) -> dict[str, Any]:
    return {
        "resource": of.resource,
        "held": of.is_held,
        "owner": of.owner,
        "fence": of.fence,
        "claim_id": of.claim_id,
        "ttl_seconds": of.ttl_seconds,
        "held_seconds": round(of.held_seconds, 3),
        "remaining_seconds": round(of.seconds_left, 3),
    }
