"""A queue in virtual time for each test."""

from __future__ import annotations

import pytest

from holdfast import TaskQueue


@pytest.fixture
def queue() -> TaskQueue:
    """A queue with the URL of a database that does not exist: the harness never opens it."""
    return TaskQueue("sqlite:////nowhere/at/all.db")
