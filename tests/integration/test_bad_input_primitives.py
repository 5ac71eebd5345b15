"""Wrong calls of the primitives: a typed error with the same code on every store, and nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.primitives.idempotency import Ledger
from holdfast.primitives.locks import Locks
from tests.bad_input import Surface
from tests.integration.test_bad_input import check_same, codes_of

LOCKS = Surface(
    Locks,
    kinds={
        **dict.fromkeys(("resource", "by"), "name"),
        **dict.fromkeys(("show.resource", "revoke.resource"), "known id"),
        **dict.fromkeys(("claim_id",), "name?"),
        "guard.claim_id": "name",
        "reason": "text",
        "beside": "object",
        **dict.fromkeys(("ttl", "wait", "grace"), "number"),
        "cancel_on_loss": "flag",
        "resources": "resources",
        "list.after": "after",
        **dict.fromkeys(("fence", "limit"), "whole"),
        "connection": "tx?",
    },
    good={
        "resource": "r",
        "resources": ["r"],
        "claim_id": "c",
        "fence": 1,
        "by": "ann",
    },
    leave_out=frozenset({"connect"}),
)
LEDGER = Surface(
    Ledger,
    kinds={
        **dict.fromkeys(("scope", "operation", "key"), "name"),
        "unfinished.scope": "name?",
        "once.key": "callable",
        "request": "json",
        "effect": "callable",
        "on_error": "callable",
        **dict.fromkeys(("lease_seconds", "retention_seconds"), "number?"),
        **dict.fromkeys(("wait", "wait_seconds"), "number"),
        "limit": "whole",
        "tx": "tx?",
    },
    good={"scope": "s", "operation": "o", "key": "k", "request": 1, "effect": lambda lease: None},
    leave_out=frozenset({"connect", "abandon", "extend", "fail", "finish", "close"}),
)


@pytest.fixture
def urls(tmp_path: Path, pg_dsn: str) -> list[str]:
    return ["memory://", "sqlite://", f"sqlite:///{tmp_path}/p.db", pg_dsn]


async def test_a_wrong_call_of_locks(urls: list[str]) -> None:
    codes: list[Any] = []
    for url in urls:
        async with Locks.connect(url) as locks:
            codes.append(await codes_of(LOCKS, locks))
            assert await locks.list() == []
    check_same(codes)


async def test_a_wrong_call_of_a_ledger(urls: list[str]) -> None:
    codes: list[Any] = []
    for url in urls:
        async with Ledger.connect(url) as ledger:
            codes.append(await codes_of(LEDGER, ledger))
            assert await ledger.unfinished() == []
            assert await ledger.get("s", "o", "k") is None
    check_same(codes)
