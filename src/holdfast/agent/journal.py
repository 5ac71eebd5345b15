"""The journal of an agent on its host's disk: one file for each token.

Promises: `append` returns after the records are on the disk. A write that failed is cut off, so that later
records do not follow half of one; if that fails too, the token takes no more records. `journal_id` is made
once for a folder: another id says that what was promised before is not known any more.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from holdfast.agent.link import Host, HostGone
from holdfast.core.fleet.agents import journal as records_of
from holdfast.core.fleet.agents.journal import Record, TokenLog
from holdfast.errors import DiskFull

ID_FILE: Final = "journal-id"


class HostJournal:
    """The journal in one folder of a host."""

    def __init__(self, host: Host, folder: Path | str, fresh_id: str) -> None:
        """`fresh_id`: the id of the journal if the folder has none."""
        self._host = host
        self._folder = str(folder)
        self._fresh_id = fresh_id
        self._sizes: dict[int, int] = {}
        self._broken: set[int] = set()
        self.journal_id = ""

    async def load(self) -> list[TokenLog]:
        path = f"{self._folder}/{ID_FILE}"
        self.journal_id = await self._host.call("keep_text", path, self._fresh_id)
        found = await self._host.call("load", self._folder)
        logs = []
        for name, data in found.items():
            log = records_of.decode(int(name), base64.b64decode(data))
            if log.torn_bytes and not log.is_damaged:
                await self._host.call("cut", self._folder, log.token, log.good_bytes)
            self._sizes[log.token] = log.good_bytes + (log.torn_bytes if log.is_damaged else 0)
            logs.append(log)
        return sorted(logs, key=lambda log: log.token)

    async def append(self, token: int, *records: Record, sync: bool = True) -> None:
        if token in self._broken:
            raise DiskFull(f"the journal of token {token} cannot be written any more")
        text = b"".join(map(records_of.encode, records)).decode()
        size = self._sizes.get(token, 0)
        try:
            await self._host.call("append", self._folder, token, text, sync)
        except HostGone:
            raise
        except OSError as error:
            await self._mend(token, size)
            raise DiskFull(f"the journal cannot be written: {error}") from error
        self._sizes[token] = size + len(text.encode())

    async def _mend(self, token: int, size: int) -> None:
        """Cuts half a record off."""
        try:
            await self._host.call("cut", self._folder, token, size)
        except FileNotFoundError:
            return
        except OSError:
            self._broken.add(token)

    async def forget(self, tokens: Sequence[int]) -> None:
        newest = max(self._sizes, default=0)
        for token in tokens:
            if token != newest and token in self._sizes:
                await self._host.call("forget", self._folder, token)
                del self._sizes[token]
