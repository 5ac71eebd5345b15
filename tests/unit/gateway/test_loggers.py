"""The loggers of a gateway: a line of it does not look like one of a worker."""

from __future__ import annotations

import re
from pathlib import Path

import holdfast.gateway

NAMES = {"holdfast.gateway", "holdfast.feed", "uvicorn.error"}


def test_a_gateway_logs_under_its_own_names() -> None:
    folder = Path(holdfast.gateway.__file__).parent
    names = {
        name
        for path in folder.rglob("*.py")
        for name in re.findall(r'getLogger\("([^"]*)"\)', path.read_text("utf-8"))
    }
    assert names == NAMES
