"""Reads of the memory twin that wait for an entry.

Promises: a reader is served within the command, or the transaction, that adds an entry, as in Redis: what is
removed by the next command has been read. Readers are served in the order in which they came.
Never: a lock or a timer (the caller has both).
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.primitives.kv.memory.keyspace import Keyspace, Watch
from holdfast.primitives.kv.memory.streams import pinned, xread
from holdfast.primitives.kv.op import Reply, Words
from holdfast.primitives.kv.problems import Refused


class Reader:
    """One read that waits; `reply` is there after `wake` was called."""

    __slots__ = ("reply", "wake", "watch", "words")

    def __init__(self, words: Words, watch: Watch, wake: Callable[[], object]) -> None:
        self.words = words
        self.watch = watch
        self.wake = wake
        self.reply: Reply = None


class Readers:
    """All that wait at one twin."""

    __slots__ = ("_db", "waiting")

    def __init__(self, db: Keyspace) -> None:
        self._db = db
        self.waiting: dict[Reader, None] = {}

    def add(self, words: Words, wake: Callable[[], object]) -> Reader:
        """For a read that found nothing."""
        fixed, keys = pinned(self._db, words)
        reader = Reader(fixed, self._db.watch(keys), wake)
        self.waiting[reader] = None
        return reader

    def serve(self) -> None:
        """After a command or a transaction."""
        for reader in list(self.waiting):
            if not reader.watch.is_broken:
                continue
            reader.watch.is_broken = False
            try:
                reader.reply = xread(self._db, reader.words)
            except Refused:
                continue  # another type is there now: Redis keeps waiting for a stream
            if reader.reply is not None:
                self.leave(reader)
                reader.wake()

    def leave(self, reader: Reader) -> None:
        """Served, or gone."""
        if reader in self.waiting:
            del self.waiting[reader]
            self._db.unwatch(reader.watch)
