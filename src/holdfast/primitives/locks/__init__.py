"""Locks: leases with a fence on the store, and Redlock on Redis for saving work."""

from __future__ import annotations

from holdfast.primitives.locks.redlock import AsyncRedlock, Redlock

__all__ = ["AsyncRedlock", "Redlock"]
