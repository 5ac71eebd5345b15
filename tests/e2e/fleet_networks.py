"""Networks between agents and gateways that fail on command.

`Namespaces`: each agent is in a network namespace of the kernel, with a cable to the one of the gateways.
They speak TLS over it. A cut takes the cable down: packets are lost and nothing says so. `Proxies`: for
machines that do not allow namespaces; each agent has a TCP proxy to each gateway. A cut resets connections
and refuses new ones.
Promises: nothing of the machine's own network is changed, and all of it ends with the test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, Protocol

from proof.lab.proxy import HOST, Proxy
from proof.lab.servers import free_port
from tests.integration.worker.served import make_ca, make_certificate

HUB: Final = "10.77.0.1"
PORTS: Final = (8001, 8002)
LOSS: Final = ("netem", "loss", "10%", "delay", "20ms", "10ms")
TOOLS: Final = ("ip", "unshare", "nsenter")


class Network(Protocol):
    """Where gateways listen, how agents reach them, and what goes wrong between them."""

    kind: str

    def gateway_options(self, gateway: int) -> list[str]: ...

    def gateway_network(self) -> str:
        """See `tests.launcher.Request`."""
        ...

    def agent_network(self, agent: int) -> str: ...

    def addresses(self, agent: int) -> str:
        """Of both gateways, for an agent."""
        ...

    def cut(self, agent: int) -> None: ...

    def heal(self, agent: int) -> None: ...

    def disturb(self, agent: int) -> None:
        """A short fault that needs no healing."""
        ...


@asynccontextmanager
async def open_network(agents: int, folder: Path) -> AsyncIterator[Network]:
    """Namespaces where they are allowed, else proxies. HOLDFAST_PROXIES=1 chooses proxies."""
    if "HOLDFAST_PROXIES" not in os.environ and has_namespaces():
        with namespaces(agents) as holders:
            yield Namespaces(holders, folder)
    else:
        ports = [free_port(), free_port()]
        async with AsyncExitStack() as stack:
            proxies = [
                [await stack.enter_async_context(Proxy(port)) for port in ports]
                for _ in range(agents)
            ]
            yield Proxies(ports, proxies)


def has_namespaces() -> bool:
    """Whether this process may make them, and cables between them."""
    if any(shutil.which(tool) is None for tool in TOOLS):
        return False
    trial = ["unshare", "--net", "ip", "link", "add", "name", "t0", "type", "veth"]
    return (
        subprocess.run([*trial, "peer", "name", "t1"], check=False, capture_output=True).returncode
        == 0
    )


class Proxies:
    """A proxy for each agent and gateway."""

    kind = "proxies"

    def __init__(self, ports: Sequence[int], proxies: Sequence[Sequence[Proxy]]) -> None:
        self._ports = ports
        self._proxies = proxies
        self._count = 0

    def gateway_options(self, gateway: int) -> list[str]:
        return ["--host", HOST, "--port", str(self._ports[gateway])]

    def gateway_network(self) -> str:
        return ""

    def agent_network(self, agent: int) -> str:
        return ""

    def addresses(self, agent: int) -> str:
        hosts = ",".join(f"{HOST}:{proxy.port}" for proxy in self._proxies[agent])
        return f"holdfast://{hosts}"

    def cut(self, agent: int) -> None:
        for proxy in self._proxies[agent]:
            proxy.cut()

    def heal(self, agent: int) -> None:
        for proxy in self._proxies[agent]:
            proxy.heal()

    def disturb(self, agent: int) -> None:
        """In turn: an answer is lost, or the connection becomes slow until the next cut was healed."""
        self._count += 1
        for proxy in self._proxies[agent]:
            if self._count % 2:
                proxy.lose_answer()
            else:
                proxy.slow(latency_seconds=0.1, bytes_per_second=100_000)


class Namespaces:
    """A namespace for the gateways and one for each agent, with cables to a bridge."""

    kind = "namespaces"

    def __init__(self, holders: Sequence[int], folder: Path) -> None:
        """`holders`: processes in the namespaces, the one of the gateways first."""
        self._hub, *self._agents = holders
        self._ca = make_ca(folder)
        self._own = make_certificate(folder, self._ca, "hub", f"IP:{HUB}")
        self._in(
            self._hub,
            *("link set lo up", "link add name br0 type bridge"),
            *(f"address add {HUB}/24 dev br0", "link set br0 up"),
            *(
                line
                for n, pid in enumerate(self._agents)
                for line in (
                    f"link add name host{n} type veth peer name eth0 netns {pid}",
                    f"link set host{n} master br0 up",
                )
            ),
        )
        for n, pid in enumerate(self._agents):
            address = f"address add 10.77.0.{n + 10}/24 dev eth0"
            self._in(pid, "link set lo up", address, "link set eth0 up")
        self._has_loss = self._lose(0)

    def gateway_options(self, gateway: int) -> list[str]:
        return [
            *("--host", HUB, "--port", str(PORTS[gateway])),
            *("--tls-cert", str(self._own.certificate), "--tls-key", str(self._own.key)),
        ]

    def gateway_network(self) -> str:
        return _file(self._hub)

    def agent_network(self, agent: int) -> str:
        return _file(self._agents[agent])

    def addresses(self, agent: int) -> str:
        hosts = ",".join(f"{HUB}:{port}" for port in PORTS)
        return f"holdfasts://{hosts}?ca={self._ca.certificate}"

    def cut(self, agent: int) -> None:
        self._in(self._hub, f"link set host{agent} down")

    def heal(self, agent: int) -> None:
        self._in(self._hub, f"link set host{agent} up")

    def disturb(self, agent: int) -> None:
        """Packets are lost from now on, if the kernel can do that; else those of a moment."""
        if self._has_loss:
            self._lose(agent)
        else:
            self.cut(agent)
            self.heal(agent)

    def _lose(self, agent: int) -> bool:
        words = [*_inside(self._hub), "tc", "qdisc", "replace", "dev", f"host{agent}", "root"]
        if shutil.which("tc") is None:
            return False
        return subprocess.run([*words, *LOSS], check=False, capture_output=True).returncode == 0

    def _in(self, pid: int, *lines: str) -> None:
        words = [*_inside(pid), "ip", "-batch", "-"]
        subprocess.run(words, input="\n".join(lines), text=True, check=True)


def _file(pid: int) -> str:
    return f"/proc/{pid}/ns/net"


def _inside(pid: int) -> list[str]:
    return ["nsenter", f"--net={_file(pid)}"]


@contextmanager
def namespaces(agents: int) -> Iterator[list[int]]:
    """Ids of processes in new namespaces. A namespace ends with its last process; these end with their
    input, so with this process."""
    holders = [
        subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo ready; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(agents + 1)
    ]
    try:
        for holder in holders:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"ready\n"
        yield [holder.pid for holder in holders]
    finally:
        for holder in holders:
            holder.communicate()
