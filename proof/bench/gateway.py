"""A `holdfast server` process of a measurement."""

from __future__ import annotations

import os
import re
import subprocess
import sys

TOKEN = "hf_admin_" + "d" * 40


class Gateway:
    """Started by its constructor; it serves when that returns."""

    def __init__(self, url: str, *options: str, folder: str | None = None) -> None:
        """`url`: of the store. `folder`: where it runs, with its settings."""
        command = [sys.executable, "-m", "holdfast", "server", "--port", "0", *options]
        self.process = subprocess.Popen(
            [*command, "--url", url],
            env={**os.environ, "HOLDFAST_ADMIN_TOKEN": TOKEN},
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        port = re.search(r"gRPC on port (\d+)", line)
        assert port is not None, line
        self.url = line.split()[3]
        self.grpc_address = f"127.0.0.1:{port[1]}"

    @property
    def worker_address(self) -> str:
        """What a `TaskQueue` of a remote worker connects to."""
        return f"holdfast://{self.url.partition('://')[2]}"

    def stop(self) -> None:
        """Ends it at once."""
        self.process.kill()
        self.process.wait()
