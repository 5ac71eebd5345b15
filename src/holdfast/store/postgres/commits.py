"""Transactions whose COMMIT was sent and never answered: were they committed?

Each transaction that writes leaves a number that is unique: the id of its feed record, or a mark in
`holdfast_commit` when it has no facts. When the answer of COMMIT is lost, another connection inserts the same
number and rolls back. A duplicate key proves that the transaction was committed. An insert that succeeds
proves that it was not, and never will be. While the transaction is still open the insert waits for its end.

Promises: the proof needs no rights, no process id and no transaction id, and survives a crash of the server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import asyncpg

from holdfast.store.postgres import connection as postgres
from holdfast.store.script import Script, call

T = TypeVar("T")
RECORD: Final = "record_facts"


class CommitProof(NamedTuple):
    """What a transaction leaves behind if it is committed."""

    probe: str
    """The statement that inserts the number again."""
    number: str


class Unsure(Exception):
    """COMMIT was sent, and its answer was lost."""

    def __init__(self, answer: Any, proof: CommitProof) -> None:
        super().__init__("the answer of COMMIT was lost")
        self.answer = answer
        """What the script had computed."""
        self.proof = proof


class _Notes:
    """What a script did."""

    def __init__(self) -> None:
        self.writes = False
        self.record: str | None = None

    def of(self, script: Script[T]) -> Script[T]:
        """The same script, watched."""
        known = postgres.statements()
        rows: Any = None
        while True:
            try:
                wanted = script.send(rows)
            except StopIteration as end:
                answer: T = end.value
                return answer
            if wanted.name == RECORD:
                self.record = wanted.params["record_id"]
            self.writes = self.writes or known[wanted.name].writes
            rows = yield wanted


class CommitMarks:
    """Runs scripts in transactions of their own, one for each driver. Sweepers forget old marks."""

    async def run(
        self,
        connection: postgres.Connection,
        script: Script[T],
        mark: Callable[[], int] | None,
        begin: str = "BEGIN",
    ) -> T:
        """Raises Unsure when the script ended and the answer of COMMIT was lost. Without a `mark` the
        script may be run again in any case, and the loss is an ordinary error. `begin` may bring settings
        for this transaction: asyncpg's own object for one has no room for them."""
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
    """Waits for the end of the transaction if it is still open."""
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
