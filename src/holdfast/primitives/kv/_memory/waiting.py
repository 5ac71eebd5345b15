"""Reads of the memory backend that wait for an entry.

Promises: a reader is served within the command, or the transaction, that adds an entry, as in Redis: an
entry that the next command removes has been read. Readers are served in the order of arrival.
Never: takes a lock or starts a timer (the caller has both).
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.primitives.kv._memory.keyspace import Keyspace, Watch
from holdfast.primitives.kv._memory.streams import pinned, xread
from holdfast.primitives.kv._op import Reply, Words
from holdfast.primitives.kv._problems import Refused


class Reader:
    """One read that waits; `reply` is set before `wake` is called."""

    __slots__ = ("reply", "wake", "watch", "words")

    def __init__(self, words: Words, watch: Watch, wake: Callable[[], object]) -> None:
        self.words = words
        self.watch = watch
        self.wake = wake
        self.reply: Reply = None


class Readers:
    """All waiting reads of one backend."""

    __slots__ = ("_db", "waiting")

    def __init__(self, db: Keyspace) -> None:
        self._db = db
        self.waiting: dict[Reader, None] = {}

    def add(self, words: Words, wake: Callable[[], object]) -> Reader:
        """Adds a read that found nothing."""
        fixed, keys = pinned(self._db, words)
        reader = Reader(fixed, self._db.watch(keys), wake)
        self.waiting[reader] = None
        return reader

    def serve(self) -> None:
        """Called after a command or a transaction."""
        for reader in list(self.waiting):
            if not reader.watch.is_broken:
                continue
            reader.watch.is_broken = False
            try:
                reader.reply = xread(self._db, reader.words)
            except Refused:
                continue  # the key has another type now: Redis keeps waiting for a stream
            if reader.reply is not None:
                self.leave(reader)
                reader.wake()

    def leave(self, reader: Reader) -> None:
        """Removes a reader that was served or has given up."""
        if reader in self.waiting:
            del self.waiting[reader]
            self._db.unwatch(reader.watch)
