"""Servers as processes of their own."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

TLS = Path(__file__).parent / "tls"


class Process:
    """A server that was started, with its address and its token."""

    def __init__(self, popen: subprocess.Popen[str], url: str, token: str) -> None:
        self.popen = popen
        self.url = url
        self.auth = {"Authorization": f"Bearer {token}"}

    def ask(self, method: str, path: str, **options: Any) -> httpx2.Response:
        verify = ssl.create_default_context(cafile=str(TLS / "cert.pem"))
        with httpx2.Client(base_url=self.url, headers=self.auth, verify=verify) as client:
            return client.request(method, path, **options)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.popen.send_signal(number)
        return self.popen.wait(30)


@contextmanager
def started(folder: Path, *options: str, **environ: str) -> Iterator[Process]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")} | environ
    command = [sys.executable, "-m", "holdfast", "server", "--port", "0", *options]
    with (
        (folder / "stderr").open("w") as stderr,
        subprocess.Popen(
            command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=stderr, text=True
        ) as popen,
    ):
        try:
            assert popen.stdout is not None
            first = popen.stdout.readline()
            assert first, (folder / "stderr").read_text()
            url = first.split()[3]
            token = environ.get("HOLDFAST_ADMIN_TOKEN") or popen.stdout.readline().split()[1]
            yield Process(popen, url, token)
        finally:
            popen.kill()
