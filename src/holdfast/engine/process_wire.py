"""The connection between a worker and a handler process: messages on a socket, and the end of the child
with its parent.

Promises: a message is a length and that many bytes. A child whose parent is gone ends at once, also in
the middle of a handler: by a signal of the kernel on Linux, and everywhere by a thread that sees the
socket closed.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import select
import signal
import socket
import struct
import sys
import threading
from typing import Any, Final

HEADER: Final = struct.Struct("!Q")
HEADER_BYTES: Final = HEADER.size
PR_SET_PDEATHSIG: Final = 1


def framed(body: bytes) -> bytes:
    return HEADER.pack(len(body)) + body


def size_of(header: bytes) -> int:
    size: int = HEADER.unpack(header)[0]
    return size


def portable(error: Exception) -> Exception:
    """The error, or a RuntimeError with its text if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__qualname__}: {error}")
    return error


class Pipe:
    """The child's end of the socket. Calls block."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def send(self, message: object) -> None:
        self._end.sendall(framed(pickle.dumps(message)))

    def recv(self) -> Any:
        """EOFError when the parent is gone."""
        return pickle.loads(self._exactly(size_of(self._exactly(HEADER_BYTES))))

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._end.recv(size - len(parts))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)


def die_with(parent: int, end: socket.socket) -> None:
    """Ends this process when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # The parent ended before prctl took effect.
    threading.Thread(target=_watch, args=(end,), name="holdfast-parent", daemon=True).start()


def _watch(end: socket.socket) -> None:
    """Waits for the other end to be closed, without reading from it."""
    poll = select.poll()
    poll.register(end, 0)  # Hang-ups and errors are always reported.
    poll.poll()
    os._exit(1)
