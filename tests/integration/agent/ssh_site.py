"""SSH servers on loopback whose users are hosts: each has its own home."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh

from holdfast.fleet.ssh.target import SshOptions


class SshSite:
    """One server. The name of the user is the name of the host."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.port = 0
        self.connections: list[asyncssh.SSHServerConnection] = []
        self.logins = 0
        self.is_open = True
        self.children: list[subprocess.Popen[bytes]] = []

    def home(self, user: str) -> Path:
        path = self.folder / user
        path.mkdir(exist_ok=True)
        return path

    @property
    def options(self) -> SshOptions:
        return SshOptions(
            key_files=(str(self.folder / "key"),), known_hosts=str(self.folder / "known")
        )

    def address(self, user: str) -> str:
        return f"{user}@127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Every connection breaks."""
        for connection in self.connections:
            connection.abort()
        self.connections.clear()

    async def run(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        user = process.get_extra_info("username")
        command = process.command or "true"
        if not self.is_open:
            process.exit(1)
            return
        child = subprocess.Popen(  # noqa: ASYNC220
            command,
            shell=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home(user))},
        )
        self.children.append(child)
        assert child.stdin is not None
        out = asyncio.create_task(self.answer(child, process))
        try:
            while data := await process.stdin.read(65_536):
                child.stdin.write(data)
        except (asyncssh.Error, OSError):
            pass
        finally:
            child.stdin.close()
            await out
            process.exit(0)

    async def answer(
        self, child: subprocess.Popen[bytes], process: asyncssh.SSHServerProcess[bytes]
    ) -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        pipe, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), child.stdout
        )
        while data := await reader.read(65_536):
            try:
                process.stdout.write(data)
            except OSError:
                break
        pipe.close()

    async def reap(self) -> None:
        """Waits for the keepers: they end after their last command."""
        for child in self.children:
            await asyncio.to_thread(child.wait)


class _Server(asyncssh.SSHServer):
    def __init__(self, site: SshSite) -> None:
        self.site = site

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self.site.connections.append(conn)
        self.site.logins += 1

    def begin_auth(self, username: str) -> bool:
        return True


@asynccontextmanager
async def ssh_site(folder: Path) -> AsyncIterator[SshSite]:
    site = SshSite(folder)
    server_key = asyncssh.generate_private_key("ssh-ed25519")
    client_key = asyncssh.generate_private_key("ssh-ed25519")
    client_key.write_private_key(str(folder / "key"))
    client_key.write_public_key(str(folder / "authorized"))
    server = await asyncssh.create_server(
        lambda: _Server(site),
        "127.0.0.1",
        0,
        server_host_keys=[server_key],
        authorized_client_keys=str(folder / "authorized"),
        process_factory=site.run,
        encoding=None,
    )
    site.port = server.get_port()
    public = server_key.export_public_key().decode()
    (folder / "known").write_text(f"[127.0.0.1]:{site.port} {public}")
    try:
        yield site
    finally:
        site.cut()
        server.close()
        await server.wait_closed()
        await site.reap()
