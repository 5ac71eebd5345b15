"""Statements on sessions outside Holdfast, and temporary databases."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw
import asyncpg

from proof.lab.servers import Postgres


async def _query(url: str, texts: tuple[str, ...]) -> list[Any]:
    connection = await asyncpg.connect(url)
    try:
        for text in texts[:-1]:
            await connection.execute(text)
        return await connection.fetch(texts[-1])
    finally:
        await connection.close()


def query(url: str, *texts: str) -> list[Any]:
    """Runs the statements on one new session; returns the rows of the last."""
    if url.startswith("sqlite"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.set_busy_timeout(10_000)
        try:
            return [list(connection.execute(text)) for text in texts][-1]
        finally:
            connection.close()
    return asyncio.run(_query(url, texts))


@contextmanager
def database(postgres: Postgres, name: str) -> Iterator[str]:
    """A temporary empty database; yields its URL."""
    query(postgres.dsn(), f'CREATE DATABASE "{name}"')
    try:
        yield postgres.dsn(name)
    finally:
        query(postgres.dsn(), f'DROP DATABASE "{name}" WITH (FORCE)')
