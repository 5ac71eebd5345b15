"""The cases, one a file: what is done to a stage, and on which stores it makes sense."""

from __future__ import annotations

from chaos.cases import (
    answer_lost,
    burst,
    cut,
    disk,
    half_open,
    isolation,
    kill_once,
    kill_repeatedly,
    old_reader,
    open_transaction,
    restart,
    slow,
    time_limits,
    worker_kill,
    zombie,
)
from chaos.cases._case import Case

__all__ = ["CASES", "Case"]

CASES: tuple[Case, ...] = (
    restart.CASE,
    kill_once.CASE,
    kill_repeatedly.CASE,
    old_reader.CASE,
    burst.CASE,
    worker_kill.CASE,
    zombie.CASE,
    disk.CASE,
    cut.CASE,
    half_open.CASE,
    slow.CASE,
    answer_lost.CASE,
    open_transaction.CASE,
    isolation.CASE,
    time_limits.CASE,
)
