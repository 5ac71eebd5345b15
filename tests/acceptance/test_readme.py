"""The commands of README.md work as they are printed, in a fresh folder with its first program."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.cli_support import Cli, Worker
from tests.integration.gateway.processes import started

ROOT = Path(__file__).resolve().parents[2]
ADMIN = "hf_admin_" + "r" * 40
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = sorted(set(re.findall(r"`holdfast ([a-z][^`]*)`", README)))
SERVES = [command for command in COMMANDS if command.startswith("worker ")]
ENDS = [command for command in COMMANDS if command not in SERVES]


@pytest.fixture
def fresh(tmp_path: Path) -> Cli:
    """A folder with the first program of the page, under the name that the page gives it."""
    name = re.findall(r"Saved as `(\w+\.py)`", README)[0]
    program = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    (tmp_path / name).write_text(program, "utf-8")
    return Cli(tmp_path)


def test_the_page_has_commands() -> None:
    assert len(SERVES) == 1
    assert len(ENDS) == 2


def test_the_six_lines_of_the_page_run(tmp_path: Path) -> None:
    [program] = re.findall(r"```py\n(.*?)```", README, re.DOTALL)
    assert len([line for line in program.splitlines() if line]) <= 6
    (tmp_path / "hello.py").write_text(program, "utf-8")
    cli = Cli(tmp_path)
    [serve] = re.findall(r"^holdfast (worker hello:queue)", README, re.MULTILINE)
    [ask] = re.findall(r"^holdfast (enqueue hello .*?--wait)", README, re.MULTILINE)
    with Worker(cli, shlex.split(serve)) as worker:
        assert worker.ready(1)
        assert "hello you" in cli.ok(*shlex.split(ask))


@pytest.mark.parametrize("command", ENDS)
def test_a_command_ends_well(fresh: Cli, command: str) -> None:
    assert fresh.ok(*shlex.split(command))


@pytest.mark.parametrize("command", SERVES)
def test_a_worker_of_the_page_is_up(fresh: Cli, command: str) -> None:
    words = shlex.split(command)
    count = int(words[words.index("--processes") + 1])
    with Worker(fresh, words) as worker:
        assert len(worker.ready(count)) == count
        worker.send(signal.SIGTERM)
        assert worker.ends() == 0


@pytest.mark.timeout(180)
def test_the_commands_of_the_fleet_run_as_they_stand(tmp_path: Path) -> None:
    """All of them, in order, in a shell; the address and the token are those of the server."""
    block = re.findall(r"## Fleet:.*?```\n(.*?)```", README, re.DOTALL)[0]
    first, second, rest = block.split("\n", 2)
    words = shlex.split(first, comments=True)
    assert words[:2] == ["holdfast", "server"]
    assert second.startswith("export HOLDFAST_GATEWAY=")
    with started(tmp_path, *words[2:], HOLDFAST_ADMIN_TOKEN=ADMIN) as server:
        bin_folder = str(Path(sys.executable).parent)
        environ = {
            **{name: text for name, text in os.environ.items() if name != "HOLDFAST_URL"},
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "HOLDFAST_GATEWAY": server.url,
            "HOLDFAST_TOKEN": ADMIN,
        }
        ran = subprocess.run(
            ["bash", "-e", "-c", rest],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=environ,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        jobs = server.ask("GET", "/jobs").json()["items"]
        assert [job["status"] for job in jobs] == ["SUCCESS", "SUCCESS"]
        assert jobs[0]["external_id"] == "deploy-42"
        assert jobs[0]["hosts"] > 500
        assert server.stop() == 0


def test_every_verb_of_make_exists() -> None:
    verbs = set(re.findall(r"^make (\w+)|`make (\w+)`", README, re.MULTILINE))
    named = {one or other for one, other in verbs}
    there = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert len(named) >= 7
    assert named <= there
