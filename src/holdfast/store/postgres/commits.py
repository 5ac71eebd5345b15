"""Finds out whether a transaction was committed whose COMMIT got no answer.

Each transaction that writes stores a unique number: the id of its feed record, or a mark in `holdfast_commit`
if it has no events. When the answer of COMMIT is lost, another connection inserts the same number and rolls
back. A duplicate key proves that the transaction was committed. An insert that succeeds proves that it was
not, and never will be. While the transaction is still open, the insert waits for its end.

Promises: the proof needs no privileges, no process id and no transaction id, and survives a server crash.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import asyncpg

from holdfast.store.postgres import connection as postgres
from holdfast.store.script import Script, call

T = TypeVar("T")
RECORDS: Final = frozenset({"append_record", "insert_alike"})
"""Statements that write a record, with its id."""
SHORTCUTS: Final = {"claim_plain": 3, "complete_plain": 0, "complete_alike": 0}
"""Shortcuts that write a record if they changed a task, and the column of their answer with its id."""


class CommitProof(NamedTuple):
    """The row that exists if a transaction was committed."""

    probe: str
    """The statement that inserts the number again."""
    number: str


class Unsure(Exception):
    """COMMIT was sent, and its answer was lost."""

    def __init__(self, answer: Any, proof: CommitProof) -> None:
        super().__init__("the answer of COMMIT was lost")
        self.answer = answer
        """The return value of the script."""
        self.proof = proof


class _Notes:
    """Notes whether a script writes, and the id of its feed record."""

    def __init__(self) -> None:
        self.writes = False
        self.record: str | None = None

    def of(self, script: Script[T]) -> Script[T]:
        """Wraps the script, and notes its statements."""
        statements = postgres.statements()
        rows: Any = None
        while True:
            try:
                statement = script.send(rows)
            except StopIteration as end:
                answer: T = end.value
                return answer
            if statement.name in RECORDS:
                self.record = statement.params["record_id"]
            self.writes = self.writes or statements[statement.name].writes
            rows = yield statement
            column = SHORTCUTS.get(statement.name)
            if column is not None and rows and rows[0][column] is not None:
                self.record = statement.params["record_id"]


class CommitMarks:
    """Runs scripts in transactions that store a proof of their commit. Sweepers prune old marks."""

    async def run(
        self,
        connection: postgres.Connection,
        script: Script[T],
        mark: Callable[[], int] | None,
        begin: str = "BEGIN",
    ) -> T:
        """Raises Unsure if the script ended and the answer of COMMIT was lost. Without a `mark` the script
        may be run again in any case, and the loss is an ordinary error. `begin` may contain settings of the
        transaction, for which the transaction object of asyncpg has no option."""
        await connection.execute(begin)
        try:
            answer, proof = await self._marked(connection, script, mark)
        except BaseException:
            await connection.execute("ROLLBACK")
            raise
        try:
            await connection.execute("COMMIT")
        except postgres.GONE as error:
            if proof is None:
                raise
            raise Unsure(answer, proof) from error
        return answer

    async def _marked(
        self,
        connection: postgres.Connection,
        script: Script[T],
        mark: Callable[[], int] | None,
    ) -> tuple[T, CommitProof | None]:
        notes = _Notes()
        answer = await postgres.run(connection, notes.of(script))
        if mark is None or not notes.writes:
            return answer, None
        if notes.record is not None:
            return answer, CommitProof("probe_record", notes.record)
        return answer, await self._leave_mark(connection, mark())

    async def _leave_mark(self, connection: postgres.Connection, number: int) -> CommitProof:
        await postgres.execute(connection, call("mark_commit", number=str(number)))
        return CommitProof("probe_commit", str(number))


async def was_committed(connection: postgres.Connection, proof: CommitProof) -> bool:
    """Returns whether the transaction was committed. Waits for its end if it is still open."""
    probing = connection.transaction()
    await probing.start()
    try:
        await connection.execute("SET LOCAL lock_timeout = 0")
        await postgres.execute(connection, call(proof.probe, number=proof.number))
    except asyncpg.UniqueViolationError:
        return True
    else:
        return False
    finally:
        await probing.rollback()
