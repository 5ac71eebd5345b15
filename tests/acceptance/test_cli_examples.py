"""The examples run as their docstrings say, alone and under the command line."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.cli_support import Cli, Worker

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("quickstart", "sent 'Hello' to a@example.com"),
        ("shop", "ship-5       completed  order 5 shipped"),
        ("outbox", "2 tasks for two users"),
    ],
)
def test_an_example_runs_by_itself(tmp_path: Path, name: str, last: str) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        cwd=tmp_path,
        env=Cli(tmp_path).env,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.splitlines()[-1] == last
    assert all("; next attempt in" in line for line in done.stderr.splitlines()), done.stderr


def test_the_shop_runs_under_workers(tmp_path: Path) -> None:
    cli = Cli(EXAMPLES, f"sqlite:///{tmp_path / 'shop.db'}")
    with Worker(cli, ["worker", "shop:queue"]) as worker:
        worker.ready()
        ids = cli.json("enqueue", "place_order", "order=17", "--wait")["result"]
        assert ids == ["charge-17", "receipt-17", "label-17", "ship-17"]
        assert [each["name"] for each in cli.json("schedule", "list")] == ["nightly_report"]
        worker.send(signal.SIGTERM)
        assert worker.ends() == 0
