"""Transactions: commands that are collected and run atomically, unless a watched key has changed.

Promises: all commands run with no other command between them. None runs when a watched key was written
(or expired) since the `with` began, or when one of them is malformed.
Never: a rollback. As in Redis, a command that fails while it runs (wrong type, overflow) does not undo
the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from holdfast.errors import HoldfastError, InvalidInput
from holdfast.primitives.kv._answer import Answer
from holdfast.primitives.kv._backend import AsyncBackend, AsyncSession, KvBackend, Outcome, Session
from holdfast.primitives.kv._generated.batch_commands import BatchCommands
from holdfast.primitives.kv._op import Op, T, Words, checked
from holdfast.primitives.kv._words import texts
from holdfast.primitives.kv.errors import WatchFailed


class Batch(BatchCommands):
    """Collects commands. Reads inside the block go through the store."""

    def __init__(self) -> None:
        self._ops: list[Op[object]] = []
        self._answers: list[Answer[object]] = []

    def add(self, op: Op[T]) -> Answer[T]:
        """Adds one command."""
        checked(op.words)
        answer = Answer(op)
        self._ops.append(op)
        self._answers.append(answer)
        return answer

    def _words(self) -> list[Words]:
        return [checked(op.words) for op in self._ops]

    def _settle(self, watch: Sequence[str], outcomes: list[Outcome] | None) -> None:
        if outcomes is None:
            raise WatchFailed(
                f"one of {', '.join(map(repr, watch))} changed before the transaction ended: nothing was "
                "written; read again and retry"
            )
        for answer, outcome in zip(self._answers, outcomes, strict=True):
            answer.settle(outcome)
        for outcome in outcomes:
            if isinstance(outcome, HoldfastError):
                raise outcome


class Transaction(Batch):
    """`with kv.transaction(watch=[...]) as tx`: commits at the end of the block, unless it raises."""

    def __init__(self, backend: KvBackend, watch: Iterable[str]) -> None:
        super().__init__()
        self._backend = backend
        self._watch = texts(watch)
        self._session: Session | None = None

    def __enter__(self) -> Self:
        self._session = self._backend.begin(self._watch)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        session, self._session = self._session, None
        if session is None:
            raise InvalidInput("use a transaction with `with`")
        if kind is not None:
            session.cancel()
        else:
            self._settle(self._watch, session.commit(self._words()))


class AsyncTransaction(Batch):
    """`async with kv.transaction(watch=[...]) as tx`: commits at the end of the block, unless it raises."""

    def __init__(self, backend: AsyncBackend, watch: Iterable[str]) -> None:
        super().__init__()
        self._backend = backend
        self._watch = texts(watch)
        self._session: AsyncSession | None = None

    async def __aenter__(self) -> Self:
        self._session = await self._backend.begin(self._watch)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        session, self._session = self._session, None
        if session is None:
            raise InvalidInput("use a transaction with `async with`")
        if kind is not None:
            await session.cancel()
        else:
            self._settle(self._watch, await session.commit(self._words()))
