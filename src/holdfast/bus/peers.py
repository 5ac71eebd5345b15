"""Datagrams between the processes that have one SQLite file open.

Each process binds a socket in a folder beside the file. A message goes to every other socket of the
folder. Users that may write the file may use the folder and the sockets.
Promises: `send` neither waits nor raises; a sender removes the socket of a process that died. Never:
guarantees delivery (a full buffer, a missing permission or a lost datagram costs a poll), uses a folder
that another user created, or removes anything but sockets.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

SUFFIX: Final = "-hints"
SOCKET: Final = ".sock"
MESSAGE_MAX: Final = 64
RECEIVE_MAX: Final = 64
"""Datagrams per call of `receive`. The next call reads the rest."""
PROC: Final = Path("/proc/self/fd")
LOOK_SECONDS: Final = 0.01
"""The interval between two reads of the folder. A process that has just started reads the store anyway."""
SETTLED_SECONDS: Final = 0.05
"""A folder may change again within the resolution of its time, so it is read again for this long."""


class Peers:
    """The other processes of one file. `open` raises OSError where Unix sockets are not available."""

    def __init__(self, file: Path, name: str, monotonic: Callable[[], float]) -> None:
        self._file = file
        self._folder = file.with_name(file.name + SUFFIX)
        self._name = name + SOCKET
        self._socket: socket.socket | None = None
        self._folder_fd = -1
        self._others: list[str] = []
        self._monotonic = monotonic
        self._changed_at_ns = -1
        self._settled_at: float | None = None
        self._look_at = float("-inf")

    def open(self) -> int:
        """Binds the socket of this process. Returns the descriptor to watch."""
        if not hasattr(socket, "AF_UNIX"):
            raise OSError("this system has no Unix sockets")
        mode = stat.S_IMODE(self._file.stat().st_mode) & 0o666
        self._make_folder(mode)
        self._folder_fd = self._open_folder()
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            bound.setblocking(False)
            bound.bind(self._address(self._name))
            os.chmod(self._name, mode, dir_fd=self._folder_fd)
            self._changed_at_ns = -1
            self._look_at = float("-inf")
        except OSError:
            bound.close()
            self.close()
            raise
        self._socket = bound
        self._listed()
        self._look_at = float("-inf")
        return bound.fileno()

    def close(self) -> None:
        if self._socket is not None:
            self._remove(self._name)
        self.forget()

    def forget(self) -> None:
        """Closes the socket but leaves its file, which is bound by another process."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._folder_fd >= 0:
            os.close(self._folder_fd)
            self._folder_fd = -1

    def is_there(self) -> bool:
        """Whether other processes can find this socket. The folder may have been removed."""
        return (self._folder / self._name).exists()

    @property
    def has_others(self) -> bool:
        """Whether the last reading of the folder found other processes."""
        return bool(self._others)

    def look(self) -> None:
        """Reads the folder, if it has changed."""
        if self._socket is not None:
            self._listed()

    def send(self, message: str) -> None:
        if self._socket is None:
            return
        for name in self._listed():
            try:
                self._socket.sendto(message.encode(), self._address(name))
            except ConnectionRefusedError:
                self._remove(name)
                self._look_at = float("-inf")
            except OSError:
                # The buffer is full: that process has unread messages, and reads the store after them.
                continue

    def receive(self) -> list[str]:
        """The messages that have arrived, without waiting."""
        messages: list[str] = []
        while self._socket is not None and len(messages) < RECEIVE_MAX:
            try:
                data = self._socket.recv(MESSAGE_MAX)
            except OSError:
                break
            messages.append(data.decode(errors="replace"))
        return messages

    def _make_folder(self, mode: int) -> None:
        """Creates the folder. Users that may write the file may enter it."""
        try:
            self._folder.mkdir(mode=0o700)
        except FileExistsError:
            return
        searchable = mode | (mode & 0o222) >> 1
        self._folder.chmod(searchable)

    def _open_folder(self) -> int:
        """PermissionError for a folder of another user, OSError for a symbolic link."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        folder_fd = os.open(self._folder, flags)
        folder, file = os.fstat(folder_fd), self._file.stat()
        is_shared = bool(file.st_mode & stat.S_IWGRP) and folder.st_gid == file.st_gid
        if folder.st_uid not in (os.geteuid(), file.st_uid) and not is_shared:
            os.close(folder_fd)
            raise PermissionError(f"'{self._folder}' belongs to another user")
        return folder_fd

    def _listed(self) -> list[str]:
        """The other sockets. The folder is read only when it has changed."""
        now = self._monotonic()
        if now < self._look_at:
            return self._others
        self._look_at = now + LOOK_SECONDS
        try:
            changed_at_ns = os.fstat(self._folder_fd).st_mtime_ns
            if changed_at_ns != self._changed_at_ns:
                self._changed_at_ns = changed_at_ns
                self._settled_at = now + SETTLED_SECONDS
            if self._settled_at is not None:
                if now >= self._settled_at:
                    self._settled_at = None
                names = os.listdir(self._folder_fd)  # noqa: PTH208 - by descriptor
                self._others = [n for n in names if n.endswith(SOCKET) and n != self._name]
        except OSError:
            self._others = []
        return self._others

    def _remove(self, name: str) -> None:
        try:
            info = os.stat(name, dir_fd=self._folder_fd, follow_symlinks=False)
            if stat.S_ISSOCK(info.st_mode):
                os.unlink(name, dir_fd=self._folder_fd)
        except OSError:
            return

    def _address(self, name: str) -> str:
        """Through the open descriptor of the folder where the system allows it: the path is then short
        enough, and cannot be replaced by another folder."""
        if PROC.exists():
            return str(PROC / str(self._folder_fd) / name)
        return str(self._folder / name)
