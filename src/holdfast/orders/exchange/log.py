"""The file in which a simulated exchange survives a restart of the process that uses it.

Promises: a request is in the file, in one write, before it can take effect. A torn last line is a request
that was never sent. A killed process loses nothing here.
Never: calls fsync; the exchange stands for another system, so its durability is not a promise of ours.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import msgspec

from holdfast.errors import InvalidInput
from holdfast.orders.errors import CorruptState
from holdfast.orders.exchange.book import Sent

T = TypeVar("T")


class Head(msgspec.Struct, frozen=True, tag="exchange"):
    """The first line: which exchange this is."""

    seed: int


class ExchangeLog:
    """The requests that were sent, one per line."""

    def __init__(self, path: Path, seed: int) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._encoder = msgspec.json.Encoder(order="deterministic")
        if not self._whole_lines():
            self._write(Head(seed))
        elif (found := self._head().seed) != seed:
            self.close()
            raise InvalidInput(
                f"{path} is an exchange of seed {found}, not {seed}: give --seed {found}, "
                "or another directory"
            )

    def read(self) -> list[Sent]:
        """All requests. Cuts off a torn last line."""
        return [self._decoded(line, Sent) for line in self._whole_lines()[1:]]

    def append(self, sent: Sent) -> None:
        self._write(sent)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _head(self) -> Head:
        return self._decoded(self._whole_lines()[0], Head)

    def _decoded(self, line: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(line, type=kind)
        except msgspec.MsgspecError as error:
            self.close()
            raise CorruptState(
                f"{self._path} is not the file of a simulated exchange: {error}; name another directory"
            ) from None

    def _whole_lines(self) -> list[bytes]:
        data = self._path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.ftruncate(self._file, len(whole))
        return whole.splitlines()

    def _write(self, line: Head | Sent) -> None:
        os.write(self._file, self._encoder.encode(line) + b"\n")
