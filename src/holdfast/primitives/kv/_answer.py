"""The future answer to a command of a transaction."""

from __future__ import annotations

from typing import Generic

from holdfast.errors import HoldfastError, InvalidInput
from holdfast.primitives.kv._backend import Outcome
from holdfast.primitives.kv._op import Op, T_co


class Answer(Generic[T_co]):
    """The answer to a command of a transaction, available after the `with` block."""

    __slots__ = ("_op", "_outcome")

    def __init__(self, op: Op[T_co]) -> None:
        self._op = op
        self._outcome: list[Outcome] = []

    @property
    def value(self) -> T_co:
        """The answer; raises the error of this command if it failed."""
        if not self._outcome:
            raise InvalidInput(f"{self._op.words[0]} has not run: its transaction did not commit")
        outcome = self._outcome[0]
        if isinstance(outcome, HoldfastError):
            raise outcome
        return self._op.read(outcome)

    def settle(self, outcome: Outcome) -> None:
        self._outcome = [outcome]
