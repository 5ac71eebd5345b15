"""Where the demo is played: the queue, the workers, the screen and the tally, put together and put away.

Promises: workers and store are closed whatever happens; the demo never hangs.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, TextIO

from holdfast.cli.demo import plan as plans, screen as screens
from holdfast.cli.demo.crew import Crew, DemoFailed
from holdfast.cli.demo.play import Story, play
from holdfast.cli.demo.proof import Proof, prove
from holdfast.cli.demo.screen import Screen
from holdfast.cli.demo.tally import Tally
from holdfast.cli.demo.tasks import queue

SECONDS_MAX: Final = 55.0


class Stage:
    """One performance."""

    story: Story
    proof: Proof

    def __init__(self, name: str, folder: Path, stream: TextIO) -> None:
        self.name = name
        self._folder = folder
        self._stream = stream
        self.plan = plans.make(name)
        self.tally = Tally(self.plan.ids)
        self.crew = Crew(queue, name, folder)

    async def run(self) -> Stage:
        """Plays and proves."""
        try:
            backend = await queue.open()
            begun = backend.clock.monotonic()
            with screens.make(self._stream, lambda: backend.clock.monotonic() - begun) as screen:
                self.story = await self._watched(screen)
            self.proof = await prove(queue, self.plan, self.tally, self.story)
        finally:
            await self.crew.end()
            await queue.stop()
        return self

    async def _watched(self, screen: Screen) -> Story:
        """The plot, with the feed followed and the screen drawn beside it."""
        start = await queue.position()
        try:
            async with asyncio.TaskGroup() as group:
                beside = (self.tally.follow(queue, start), screen.watch(self.tally))
                watching = [group.create_task(each) for each in beside]
                async with asyncio.timeout(SECONDS_MAX):
                    story = await play(queue, self.plan, self.tally, self.crew, screen)
                for task in watching:
                    task.cancel()
        except BaseExceptionGroup as found:
            error = found.exceptions[0]
            if isinstance(error, TimeoutError):
                message = f"the demo did not end within {SECONDS_MAX:g} s: see {self.crew.log}"
                raise DemoFailed(message) from None
            raise error from None
        return story
