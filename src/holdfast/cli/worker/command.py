"""`holdfast worker`: the command."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter

from holdfast.cli import values
from holdfast.cli.logs import LogFormat, log_to_stderr
from holdfast.cli.problem import Usage
from holdfast.cli.worker.token_file import TokenFile
from holdfast.client.address import check_token
from holdfast.core.redaction import Redaction

PROCESSES_MAX = 256
PORT_MAX = 65_535
TOKEN_VARIABLE = "HOLDFAST_TOKEN"
TOKEN_FILE_VARIABLE = "HOLDFAST_TOKEN_FILE"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@Parameter(name="*")
@dataclass(frozen=True)
class MetricsOptions:
    """Where a worker serves its metrics."""

    metrics_port: Annotated[
        int | None,
        Parameter(help="Serve /metrics and /healthz; the second process takes the next port."),
    ] = None
    metrics_host: Annotated[str, Parameter(help="The address of the metrics.")] = "127.0.0.1"

    @property
    def address(self) -> tuple[str, int] | None:
        return None if self.metrics_port is None else (self.metrics_host, self.metrics_port)

    def check(self, processes: int) -> None:
        """Usage for a port that does not exist."""
        last = PORT_MAX + 1 - processes
        if self.metrics_port is not None and not 0 <= self.metrics_port <= last:
            raise Usage(f"--metrics-port is {self.metrics_port}: give 0 to {last}")


NO_METRICS: Final = MetricsOptions()


def worker(
    target: Annotated[str, Parameter(help="MODULE:QUEUE, e.g. myapp:queue.")],
    /,
    *,
    processes: Annotated[int, Parameter(name=("--processes", "-p"), help="How many.")] = 1,
    max_workers: Annotated[
        int | None,
        Parameter(
            name=("--max-workers", "--concurrency", "-c"), help="Tasks at once, each process."
        ),
    ] = None,
    min_workers: Annotated[int | None, Parameter(help="Workers that are kept when idle.")] = None,
    queues: Annotated[str | None, Parameter(help="Only these, e.g. mail,reports.")] = None,
    project: Annotated[str | None, Parameter(help="Only of these, e.g. shop,billing.")] = None,
    task_timeout: Annotated[str | None, Parameter(help="How long an attempt may take.")] = None,
    shutdown_timeout: Annotated[str | None, Parameter(help="How long a stop waits.")] = None,
    lease: Annotated[str | None, Parameter(help="How soon a dead worker is noticed.")] = None,
    gateway: Annotated[
        str | None,
        Parameter(
            env_var="HOLDFAST_GATEWAY", help="Run without the database, e.g. holdfast://host:8787."
        ),
    ] = None,
    token: Annotated[
        str | None, Parameter(env_var="HOLDFAST_TOKEN", help="The token for the gateway.")
    ] = None,
    token_file: Annotated[
        Path | None,
        Parameter(
            env_var="HOLDFAST_TOKEN_FILE",
            help="A file with the token. A join token in it becomes the node's credential.",
        ),
    ] = None,
    scraped: MetricsOptions = NO_METRICS,
    log_level: LogLevel = LogLevel.INFO,
    log_format: LogFormat = LogFormat.TEXT,
) -> int:
    """Run the tasks of a queue until SIGTERM or Ctrl-C; a second signal stops at once.

    The options replace what the queue was made with. The working folder is importable.
    """
    _check(processes, project, gateway)
    scraped.check(processes)
    kept = _token_file(token_file, token, gateway, processes)
    if kept is not None:
        token = kept.read()
    elif token is not None and gateway is not None:
        token = check_token(token)
    log_to_stderr(log_level, Redaction(secrets=[token or ""]), log_format)
    given = {
        "--max-workers": ("max_workers", max_workers),
        "--min-workers": ("min_workers", min_workers),
        "--queues": ("queues", None if queues is None else values.names(queues)),
        "--project": ("projects", None if project is None else values.names(project)),
        "--task-timeout": ("task_timeout", _seconds(task_timeout, "--task-timeout")),
        "--shutdown-timeout": (
            "shutdown_timeout",
            _seconds(shutdown_timeout, "--shutdown-timeout"),
        ),
        "--lease": ("lease_seconds", _seconds(lease, "--lease")),
    }
    if processes == 1:
        from holdfast.cli.worker.serve import serve

        settings = {name: value for name, value in given.values() if value is not None}
        keep = None if kept is None else kept.keep
        return serve(target, settings, (gateway, token, keep), scraped.address)
    options: dict[str, Any] = {option: value for option, (_, value) in given.items()}
    options |= {"--gateway": gateway, "--log-level": log_level, "--log-format": log_format}
    return _supervised(target, options, token, processes, scraped)


def _check(processes: int, project: str | None, gateway: str | None) -> None:
    """Usage if an option makes no sense."""
    if not 1 <= processes <= PROCESSES_MAX:
        raise Usage(f"--processes is {processes}: give 1 to {PROCESSES_MAX}")
    if project is not None and gateway is not None:
        raise Usage(
            "--project is for workers with the database: behind a gateway the token says the project, see "
            "`holdfast token create --kind join --project`"
        )


def _supervised(
    target: str,
    options: dict[str, Any],
    token: str | None,
    processes: int,
    scraped: MetricsOptions,
) -> int:
    """Runs several processes with these options."""
    from holdfast.cli.worker.supervise import supervise

    given = [f"{name}={_text(value)}" for name, value in options.items() if value is not None]
    if token is not None:
        # Not as an argument: other users of the machine see those.
        os.environ[TOKEN_VARIABLE] = token
    given.append(f"--metrics-host={scraped.metrics_host}")
    return supervise([target, *given], processes, scraped.metrics_port)


def _seconds(text: str | None, option: str) -> float | None:
    return None if text is None else values.seconds(text, option)


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _token_file(
    path: Path | None, token: str | None, gateway: str | None, processes: int
) -> TokenFile | None:
    """Usage if the file makes no sense with the other options."""
    if path is None or gateway is None:
        return None
    if token is not None:
        # What is typed counts more than what the environment says.
        is_typed = token != os.environ.get(TOKEN_VARIABLE)
        is_file_typed = str(path) != os.environ.get(TOKEN_FILE_VARIABLE)
        if is_typed and not is_file_typed:
            return None
        if is_typed == is_file_typed:
            names = (
                "--token and --token-file"
                if is_typed
                else f"{TOKEN_VARIABLE} and {TOKEN_FILE_VARIABLE}"
            )
            raise Usage(f"{names} are both given: give one")
    if processes > 1:
        raise Usage("--token-file is for one process: it keeps the credential of one node")
    return TokenFile(path)
