"""The short names that users import: which exist, and that they import nothing until they are used."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

FACES = {
    "holdfast": """BlockingContext Cancel Context Edge Event HoldfastError Position Priority Reject Snooze
        Status Task TaskHandle TaskQueue""",
    "holdfast.idempotency": """FAMILIES Answered BlockingLedger Done Entry EntryKey EntryLease Failed Ledger
        OnError State""",
    "holdfast.kv": """Answer AsyncRedisKV AsyncTransaction Entry MemoryKV Op RedisKV Transaction WatchFailed
        dumps dumps_line loads""",
    "holdfast.locks": """FAMILIES AsyncRedlock BlockingEfficiencyLocks BlockingLease BlockingLocks
        ConcurrentModificationError DistributedLock EfficiencyLease EfficiencyLocks Lease LeaseInfo
        LockHandle Locks LossReason OptimisticLockError Redlock TaskAlreadyAssignedError
        update_with_retry""",
    "holdfast.orders": """CALM ROUGH Alert AsyncOrderStore DurableOrderStore Exchange ExchangeOrder
        ExchangeState ExecutionLoop Faults Fill FreezeState InMemoryOrderStore Intent Limits Order
        OrderState OrderStore Quote RecoveryReport Request RiskMonitor Side SimulatedExchange
        SqlOrderStore SqlOrders""",
    "holdfast.retry": """FAMILIES Attempt RetryBudget StopReason aretry aretry_with_log is_retryable retry
        retry_with_log retrying""",
}


@pytest.mark.parametrize("face", FACES)
def test_a_face_has_these_names_and_no_other(face: str) -> None:
    module = import_module(face)
    assert module.__all__ == FACES[face].split()
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("face", FACES)
def test_an_unknown_name_of_a_face_is_an_attribute_error(face: str) -> None:
    with pytest.raises(AttributeError, match=f"'{face}' has no attribute 'nonsense'"):
        _ = import_module(face).nonsense


@pytest.mark.parametrize("face", ["idempotency", "kv", "locks", "retry"])
def test_a_face_is_the_primitive(face: str) -> None:
    ours, theirs = import_module(f"holdfast.{face}"), import_module(f"holdfast.primitives.{face}")
    assert ours.__all__ == theirs.__all__
    assert all(getattr(ours, name) is getattr(theirs, name) for name in ours.__all__)


def test_importing_the_faces_imports_nothing_else() -> None:
    code = (
        f"import sys, {', '.join(FACES)}; "
        "print(*sorted(name for name in sys.modules if name.startswith(('holdfast', 'asyncio'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == sorted([*FACES, "holdfast._lazy"])
