"""The pytest plugin: fixtures that give virtual time, and a cluster under faults, to any queue.

    async def test_mail(holdfast_harness):
        async with holdfast_harness(queue) as h: ...

    def test_faults(simulate):
        simulate(queue, payloads={"send_email": [{"to": "a@example.com"}]}, seeds=20)

Imports nothing of Holdfast until a test asks for the fixture.
"""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def holdfast_harness() -> Any:
    """`holdfast.testing.harness`: call it with a queue and enter what it returns."""
    from holdfast.testing.harness import harness

    return harness


@pytest.fixture
def simulate() -> Any:
    """`holdfast.testing.simulated`: call it with a queue; it raises when a law was broken."""
    from holdfast.testing.simulate import simulated

    return simulated
