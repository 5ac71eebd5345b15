"""Servers as processes of their own."""

from __future__ import annotations

import os
import signal
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.launcher import Child, launcher

TLS = Path(__file__).parent / "tls"


class Process:
    """A server that was started, with its address and its token."""

    def __init__(self, child: Child, url: str, token: str) -> None:
        self.child = child
        self.url = url
        self.auth = {"Authorization": f"Bearer {token}"}

    def ask(self, method: str, path: str, **options: Any) -> httpx2.Response:
        verify = ssl.create_default_context(cafile=str(TLS / "cert.pem"))
        with httpx2.Client(base_url=self.url, headers=self.auth, verify=verify) as client:
            return client.request(method, path, **options)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.child.send_signal(number)
        return self.child.wait(30)


@contextmanager
def started(folder: Path, *options: str, **environ: str) -> Iterator[Process]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")} | environ
    command = ["server", "--port", "0", *options]
    with (
        (folder / "stderr").open("w") as stderr,
        launcher().running(command, folder, env, stderr) as child,
    ):
        assert child.stdout is not None
        first = child.stdout.readline()
        assert first, (folder / "stderr").read_text()
        url = first.split()[3]
        token = environ.get("HOLDFAST_ADMIN_TOKEN") or child.stdout.readline().split()[1]
        yield Process(child, url, token)
