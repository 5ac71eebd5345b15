"""The examples of docs/howto/kv.md do what the page says, and the page names every command."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

from holdfast.primitives.kv import RedisKV

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "kv.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def run(program: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_example_in_memory() -> None:
    assert run(EXAMPLES[0]).splitlines() == [
        "o-1: piece number 1",
        "o-2: piece number 2",
        "1 0 0",
        """{'o-1': '{"left":1,"pieces":1}', 'o-2': '{"left":0,"pieces":1}'}""",
    ]


def test_the_same_example_live(redis_url: str) -> None:
    live = EXAMPLES[0].replace("RedisKV(clock=lambda: now)", f"RedisKV.connect({redis_url!r})")
    live = live.replace("now += 0.501", 'kv.delete("once")')
    assert run(live) == run(EXAMPLES[0])


def test_the_example_live(redis_url: str) -> None:
    assert "redis://localhost:6379/0" in EXAMPLES[1]
    assert run(EXAMPLES[1].replace("redis://localhost:6379/0", redis_url)) == "{'o-2'}\n"


def test_the_page_names_every_command() -> None:
    table = PAGE[PAGE.index("## Commands") : PAGE.index("## What it promises")]
    named = set(re.findall(r"`(\w+)`", table))
    methods = {name for name, _ in inspect.getmembers(RedisKV, inspect.isfunction)}
    commands = {name for name in methods if not name.startswith("_")}
    assert commands - named == {"close", "execute", "transaction"}
