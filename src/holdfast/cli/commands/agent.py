"""`holdfast agent`: the program that runs commands of the fleet on one host."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from holdfast import __version__
from holdfast.agent.program import AgentOptions, Program
from holdfast.agent.settings import AgentSettings, OnStop, StaleBlocks, TransportKind
from holdfast.agent.state import default_folder
from holdfast.cli.logs import LogFormat, log_to_stderr
from holdfast.cli.problem import Usage
from holdfast.cli.values import names
from holdfast.cli.worker.command import LogLevel
from holdfast.cli.worker.signals import INTERRUPTED, Stops
from holdfast.client.address import check_token
from holdfast.client.http import fresh_ids
from holdfast.clock import SystemClock
from holdfast.core.check import check_id
from holdfast.core.redaction import Redaction
from holdfast.core.token import TokenKind, token_kind
from holdfast.variables import read_value

PREFIX: Final = "HOLDFAST_AGENT_"
Gateway = Annotated[
    str | None,
    Parameter(
        env_var="HOLDFAST_GATEWAY", help="One or more gateways, e.g. holdfasts://a:8787,b:8787."
    ),
]
Token = Annotated[
    str | None,
    Parameter(env_var="HOLDFAST_TOKEN", help="A join token, until the host is enrolled."),
]
TokenFile = Annotated[
    Path | None, Parameter(env_var="HOLDFAST_TOKEN_FILE", help="A file with the join token.")
]
State = Annotated[
    Path | None,
    Parameter(
        env_var=f"{PREFIX}STATE",
        help="Where the agent keeps its journal. Default: /var/lib/holdfast-agent for root.",
    ),
]
Name = Annotated[
    str | None,
    Parameter(env_var=f"{PREFIX}NAME", help="The name of the host. Default: its hostname."),
]
Labels = Annotated[
    str | None,
    Parameter(env_var=f"{PREFIX}LABELS", help="For a new host, e.g. role=web,env=prod."),
]
Allow = Annotated[
    str,
    Parameter(
        env_var=f"{PREFIX}ALLOW",
        help="Command types that may run, e.g. ping,facts,deploy-*. A shell must be named.",
    ),
]
UpdateCommand = Annotated[
    str | None,
    Parameter(
        env_var=f"{PREFIX}UPDATE_COMMAND",
        help="A program that updates this agent, for the command type update.",
    ),
]
Stale = Annotated[
    StaleBlocks,
    Parameter(
        env_var=f"{PREFIX}STALE_BLOCKS", help="What to do without news about blocks for 5 minutes."
    ),
]
Transport = Annotated[
    TransportKind,
    Parameter(
        env_var=f"{PREFIX}TRANSPORT",
        help="How it speaks to gateways: calls over HTTP, or one WebSocket.",
    ),
]
Stop = Annotated[
    OnStop,
    Parameter(
        env_var=f"{PREFIX}ON_STOP",
        help="Whether a stop leaves running commands to the next start, or waits for them.",
    ),
]


STOPPING: Final = {
    OnStop.LEAVE: "running commands go on, and the next start reports them",
    OnStop.WAIT: "nothing new, waiting for running commands",
}


def agent(
    *,
    gateway: Gateway = None,
    token: Token = None,
    token_file: TokenFile = None,
    state: State = None,
    name: Name = None,
    labels: Labels = None,
    allow: Allow = "*",
    update_command: UpdateCommand = None,
    stale_blocks: Stale = StaleBlocks.STRICT,
    on_stop: Stop = OnStop.LEAVE,
    transport: Transport = TransportKind.HTTP,
    log_level: LogLevel = LogLevel.INFO,
    log_format: LogFormat = LogFormat.TEXT,
) -> int:
    """Run commands of the fleet on this host until SIGTERM or Ctrl-C.

    The first start enrols the host with a join token. Later starts use the credential in the state folder.
    Commands outlive the agent: a restart goes on with them.
    """
    if gateway is None:
        raise Usage(
            "the gateway is missing: give --gateway holdfasts://host:8787 or HOLDFAST_GATEWAY"
        )
    join = _join_token(token, token_file)
    log_to_stderr(log_level, Redaction(secrets=[join or ""]), log_format)
    is_root = os.geteuid() == 0
    options = AgentOptions(
        gateway=gateway,
        token=join,
        state=(state or default_folder(Path.home(), is_root=is_root)).absolute(),
        name=check_id("--name", name or os.uname().nodename),
        labels={} if labels is None else dict(map(_label, names(labels))),
        transport=transport,
        settings=AgentSettings(
            version=__version__,
            allow=names(allow),
            stale_blocks=stale_blocks,
            on_stop=on_stop,
            update_argv=() if update_command is None else (update_command,),
        ),
    )
    return asyncio.run(_run(options))


async def _run(options: AgentOptions) -> int:
    program = Program(options, SystemClock(), fresh_ids())
    stops = Stops(STOPPING[options.settings.on_stop])

    def ready(line: str) -> None:
        print(line)
        sys.stdout.flush()

    running = asyncio.create_task(program.run(ready))
    graceful = asyncio.create_task(stops.graceful.wait())
    fast = asyncio.create_task(stops.fast.wait())
    await asyncio.wait({running, graceful}, return_when=asyncio.FIRST_COMPLETED)
    if not running.done():
        program.stop()
        await asyncio.wait({running, fast}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            # Commands go on in any case; the next start reports them.
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    graceful.cancel()
    fast.cancel()
    if not running.cancelled():
        await running
    return INTERRUPTED if stops.fast.is_set() else 0


def _join_token(token: str | None, path: Path | None) -> str | None:
    """Usage for a token of another kind: it would be refused after the first request."""
    if token is None and path is not None:
        token = read_value("HOLDFAST_TOKEN_FILE", str(path))
    if token is None:
        return None
    checked = check_token(token)
    kind = token_kind(checked)
    if kind not in (None, TokenKind.JOIN):
        raise Usage(
            f"the token is one of kind {kind}: a host is enrolled with a join token; "
            "`holdfast node join-token --kind agent` makes one"
        )
    return checked


def _label(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise Usage(f"--labels has '{text}': write KEY=VALUE, e.g. role=web")
    return key, value
