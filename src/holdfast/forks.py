"""Forks: how open connections, threads and event loops survive a fork of the process.

Promises: a follower pauses during the fork, goes on unchanged in the parent, and starts over in the
child. The child neither uses nor shuts down connections of the parent. Followers are held by weak
references. Never: costs anything outside of a fork. A child that is started by `exec` or by
multiprocessing's "spawn" inherits nothing and does not need this module.

The set of followers is global because a fork copies the whole process. An internal module.
"""

from __future__ import annotations

import logging
import os
import weakref
from functools import cache
from typing import Any, Final, Protocol

log = logging.getLogger("holdfast.forks")


class Follower(Protocol):
    """An open resource of this process. The methods run in the thread that forks, and must not await."""

    def before_fork(self) -> None:
        """Before the fork: finish or block all operations until `after_fork_in_parent` or `start_over`."""
        ...

    def after_fork_in_parent(self) -> None:
        """In the parent, after the fork."""
        ...

    def start_over(self) -> None:
        """In the child, after the fork: reset to the state before the resource was opened."""
        ...


_followers: Final[weakref.WeakSet[Follower]] = weakref.WeakSet()


def follow(follower: Follower) -> None:
    """Notifies the follower of forks for as long as it lives."""
    _listen()
    _followers.add(follower)


@cache
def _listen() -> None:
    """Registers the hooks once in each process. Children inherit them."""
    os.register_at_fork(
        before=lambda: _notify("before_fork"),
        after_in_parent=lambda: _notify("after_fork_in_parent"),
        after_in_child=lambda: _notify("start_over"),
    )


def _notify(method: str) -> None:
    for follower in list(_followers):
        try:
            getattr(follower, method)()
        except Exception:
            # The other followers must be notified too.
            log.exception("%r of %s failed", method, type(follower).__name__)


class PassiveFollower:
    """The two methods of a follower that has nothing to finish before a fork."""

    def before_fork(self) -> None:
        """Does nothing: no other thread shares it."""

    def after_fork_in_parent(self) -> None:
        """Does nothing: nothing was held."""


def forget(connection: Any) -> None:
    """Closes the socket of an asyncpg connection whose event loop has ended or belongs to the parent
    process. It sends nothing to the server and does not call the loop: a loop that was copied by a fork
    shares its selector with the parent, and a change there would cut the parent off from its own
    connections."""
    transport = getattr(connection, "_transport", None)
    connection._aborted = True  # asyncpg then treats it as closed and does not close it again.
    if transport is not None:
        # asyncio returns a wrapper that cannot be closed; the socket itself is inside.
        socket = getattr(transport.get_extra_info("socket"), "_sock", None)
        if socket is not None:
            socket.close()
        if hasattr(transport, "_sock"):
            transport._sock = None
