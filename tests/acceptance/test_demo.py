"""`holdfast demo` end to end, on both stores."""

import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from holdfast.cli.demo.tasks import make_plan
from tests.acceptance.cli_support import HOLDFAST, Cli

SECONDS_MAX = 60.0


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    cli = Cli(tmp_path)
    cli.env["TMPDIR"] = str(tmp_path)
    return cli


def test_all_claims_of_the_demo_hold(cli: Cli, pg_empty_dsn: str) -> None:
    answer = cli.json("demo", "--url", pg_empty_dsn)
    plan = make_plan("x")
    assert answer["ok"] is True
    assert answer["tasks"] == len(plan.ids)
    assert (answer["lost"], answer["completed_twice"]) == (0, 0)
    assert answer["by_status"] == {
        "completed": len(plan.ids) - len(plan.to_leave),
        "failed": len(plan.to_leave),
    }
    assert answer["retries"] > 0
    assert answer["recovered"] == len(answer["held"]) > 0
    assert answer["script"]["replayed"] == len(plan.imports)
    fleet = answer["fleet"]
    assert [claim["name"] for claim in fleet["claims"] if not claim["holds"]] == []
    assert sum(fleet["counts"].values()) == fleet["hosts"] == 1_000
    assert fleet["counts"]["BLOCKED"] == len(fleet["blocked"]) > 0
    assert fleet["counts"]["FAILED"] > 0
    assert answer["script"]["seconds"] < SECONDS_MAX
    waits = answer["median_wait_seconds"]
    assert waits["critical"] < waits["high"] < waits["normal"] < waits["low"]


def test_the_demo_leaves_a_store_and_no_process(cli: Cli) -> None:
    """On a terminal the demo shows the picture, the summary and the commands to try next."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cli.folder)
        os.execve(HOLDFAST[0], [*HOLDFAST, "demo"], {**cli.env, "TERM": "xterm", "COLUMNS": "100"})
    output = b""
    while True:
        try:
            output += os.read(terminal, 65536)
        except OSError:  # the terminal is closed when the demo has ended
            break
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    text = output.decode()
    assert os.waitstatus_to_exitcode(status) == 0, text[-3000:]
    assert "critical" in text
    assert "\x1b[" in text
    assert "FALSE" not in text
    for claim in (
        "no task is lost",
        "no task was completed twice",
        "all of them ran again and ended",
        "nothing started before the approval",
        "each host has one outcome",
    ):
        assert f"proved  {claim}" in text
    [url] = {word for word in text.split() if word.startswith("HOLDFAST_URL=")}
    store = url.partition("=")[2]
    assert cli.see("stats", "--url", store)["dead_letter_count"] == 3
    assert cli.see("stats", "--url", store)["nodes"] == 0


def test_an_interrupted_demo_leaves_no_worker_behind(cli: Cli) -> None:
    demo = subprocess.Popen(
        [*HOLDFAST, "demo"],
        cwd=cli.folder,
        env=cli.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert demo.stdout is not None
    for line in demo.stdout:
        if "worker processes are up" in line:
            break
    demo.send_signal(signal.SIGINT)
    _, stderr = demo.communicate(timeout=60)
    assert (demo.returncode, stderr) == (130, "")
    [store] = cli.folder.glob("holdfast-demo-*/demo.db")
    assert cli.see("stats", "--url", f"sqlite:///{store}")["nodes"] == 0
