"""The pause between two looks at what a test cannot wait for: only a question shows it."""

from __future__ import annotations

import asyncio
from typing import Final

POLL_SECONDS: Final = 0.01


async def look_again() -> None:
    await asyncio.sleep(POLL_SECONDS)
