"""What happens to open connections, threads and event loops when the process forks.

Promises: a follower stands still while the fork happens, goes on in the parent as if nothing had happened,
and starts over in the child: what it had open there belongs to the parent and is neither used nor shut down.
Followers are held weakly. Never: costs anything outside of a fork; a child that is started by `exec` or by
multiprocessing's "spawn" inherits nothing and needs none of this.

The set is global because a fork is: the operating system copies the whole process.
"""

from __future__ import annotations

import logging
import os
import weakref
from functools import cache
from typing import Any, Final, Protocol

log = logging.getLogger("holdfast.forks")


class Follower(Protocol):
    """Something that is open in this process. Calls come in the thread that forks, and must not await."""

    def hold_still(self) -> None:
        """Before the fork: until `go_on` or `start_over`, nothing is left half done."""
        ...

    def go_on(self) -> None:
        """In the parent, after the fork."""
        ...

    def start_over(self) -> None:
        """In the child, after the fork: as if it had never been opened."""
        ...


_followers: Final[weakref.WeakSet[Follower]] = weakref.WeakSet()


def follow(thing: Follower) -> None:
    """The thing hears of forks for as long as it lives."""
    _listen()
    _followers.add(thing)


@cache
def _listen() -> None:
    """Once for each process; children inherit it."""
    os.register_at_fork(
        before=lambda: _tell("hold_still"),
        after_in_parent=lambda: _tell("go_on"),
        after_in_child=lambda: _tell("start_over"),
    )


def _tell(what: str) -> None:
    for follower in list(_followers):
        try:
            getattr(follower, what)()
        except Exception:
            # One that fails must not keep the others from hearing of it.
            log.exception("%r of %s failed", what, type(follower).__name__)


class Unmoved:
    """The part of a follower that has nothing to finish before a fork."""

    def hold_still(self) -> None:
        """Nothing is shared with other threads."""

    def go_on(self) -> None:
        """Nothing was held."""


def forget(connection: Any) -> None:
    """For an asyncpg connection that cannot be closed in the usual way: its event loop has ended, or is the
    parent's. The socket is closed here and nothing else happens: no word to the server, no call of the loop.
    A loop that was copied by a fork shares its selector with the parent's; to touch it would stop the parent
    from hearing its own connections."""
    transport = getattr(connection, "_transport", None)
    connection._aborted = True  # So asyncpg takes it for closed, and does not end it once more.
    if transport is not None:
        # asyncio hands out a view of the socket that cannot be closed; the socket itself is inside.
        socket = getattr(transport.get_extra_info("socket"), "_sock", None)
        if socket is not None:
            socket.close()
        if hasattr(transport, "_sock"):
            transport._sock = None
