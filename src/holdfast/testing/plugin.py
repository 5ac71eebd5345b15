"""The pytest plugin: a fixture that gives virtual time to any queue.

    async def test_mail(holdfast_harness):
        async with holdfast_harness(queue) as h: ...

Imports nothing of Holdfast until a test asks for the fixture.
"""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def holdfast_harness() -> Any:
    """`holdfast.testing.harness`: call it with a queue and enter what it returns."""
    from holdfast.testing.stage import harness

    return harness
