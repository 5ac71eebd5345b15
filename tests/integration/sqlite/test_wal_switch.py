"""Connections that open a new file at once: each switches it to WAL, and none is refused."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw

from holdfast.store.sqlite import connection

CONNECTIONS = 8
FILES = 60


def test_connections_that_open_a_new_file_at_once_are_not_refused(tmp_path: Path) -> None:
    start = threading.Barrier(CONNECTIONS)

    def open_one(path: str) -> apsw.Connection:
        start.wait()
        return connection.connect(path)

    with ThreadPoolExecutor(CONNECTIONS) as threads:
        for number in range(FILES):
            for opened in threads.map(open_one, [f"{tmp_path}/{number}.db"] * CONNECTIONS):
                assert opened.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
                opened.close()
