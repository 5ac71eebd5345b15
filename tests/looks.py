"""Between two looks at what only a question shows: another process needs the core meanwhile."""

from __future__ import annotations

import asyncio
from typing import Final

POLL_SECONDS: Final = 0.01


async def look_again() -> None:
    await asyncio.sleep(POLL_SECONDS)
