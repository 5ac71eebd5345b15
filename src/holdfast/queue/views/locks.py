"""Locks in JSON: `LockRow` in a list, `LockView` with waiters and acts."""

from __future__ import annotations

from typing import Any

from holdfast.client import admin_models as models
from holdfast.core.lease import Audit
from holdfast.primitives.locks import LeaseInfo
from holdfast.queue.views.values import View, at, shown


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
