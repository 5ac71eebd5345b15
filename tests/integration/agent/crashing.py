"""An agent that kills itself before the n-th step on its disk: `python -m … URL STATE N`."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.agent.files import Disk
from holdfast.agent.program import AgentOptions, Program
from holdfast.client.http import fresh_ids
from holdfast.clock import SystemClock
from tests.integration.agent.agent_gateway import JOIN


class CrashingDisk(Disk):
    def __init__(self, left: int) -> None:
        self.left = left

    def step(self, name: str, do: Callable[[], Any]) -> Any:
        if self.left == 0:
            sys.stdout.write(f"crash before {name}\n")
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1
        return do()


async def main(url: str, state: str, left: int) -> None:
    options = AgentOptions(gateway=url, token=JOIN, state=Path(state), name="h1")
    program = Program(options, SystemClock(), fresh_ids(), disk=CrashingDisk(left))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, program.stop)
    await program.run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
