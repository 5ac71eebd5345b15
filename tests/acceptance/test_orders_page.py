"""The page about the order store says what the code does, and its examples run."""

import re
import subprocess
import sys
from pathlib import Path

from holdfast.orders.model.order import TRANSITIONS, OrderState
from tests.acceptance.cli_support import Cli

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "orders.md"
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    said = []
    for code in EXAMPLE.findall(PAGE.read_text("utf-8")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env=Cli(tmp_path).env,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        said += done.stdout.splitlines()
    assert said == [
        "1 order, 0.2 filled",
        "1 to cancel at the exchange",
        "the indexes are right",
        "100 orders are on the disk",
    ]


def test_the_table_of_states_is_that_of_the_code() -> None:
    text = PAGE.read_text("utf-8")
    for state in OrderState:
        nexts = ", ".join(f"`{s}`" for s in OrderState if s in TRANSITIONS[state])
        assert f"| `{state}` | {nexts or 'nothing: it is final'} |" in text
