"""The pytest plugin: fixtures for virtual time, and for a simulated cluster with faults.

    async def test_mail(holdfast_harness):
        async with holdfast_harness(queue) as h: ...

    def test_faults(simulate):
        simulate(queue, payloads={"send_email": [{"to": "a@example.com"}]}, seeds=20)

Imports nothing of Holdfast before a test uses a fixture.
"""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def holdfast_harness() -> Any:
    """`holdfast.testing.harness`: an async context manager over a queue."""
    from holdfast.testing._virtual_time import harness

    return harness


@pytest.fixture
def simulate() -> Any:
    """`holdfast.testing.simulated`: runs a queue under faults and raises when a law is broken."""
    from holdfast.testing._simulate import simulated

    return simulated
