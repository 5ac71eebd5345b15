"""The example of docs/howto/execution.md does what the page says."""

import re
import subprocess
import sys
from pathlib import Path

from holdfast.orders.execution.reconcile import Kind
from tests.acceptance.cli_support import Cli

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "execution.md"
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    (code,) = EXAMPLE.findall(PAGE.read_text("utf-8"))
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=Cli(tmp_path).env,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert re.search(r"^[1-9]\d* open orders, \d+ differences$", done.stdout, re.MULTILINE)
    assert "frozen: the market looks odd" in done.stdout
    assert "orders_placed=20," in done.stdout, "the key that was used before placed again"


def test_every_difference_is_named_on_the_page() -> None:
    text = PAGE.read_text("utf-8")
    assert [kind for kind in Kind if f"`{kind.value}`" not in text] == []
