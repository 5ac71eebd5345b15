"""Writes the fronts of the key-value store from the signatures of its commands.

    python scripts/kv_fronts.py           # write them
    python scripts/kv_fronts.py --check   # say whether they are current (a test does that too)

Each function of `primitives/kv/commands/` becomes a method of `RedisKV`, of `AsyncRedisKV` and of a
transaction, with the same parameters and documentation. The live adapter that is awaited is the one that
blocks, with `await` before the calls of `AWAITED`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

KV: Final = Path(__file__).resolve().parent.parent / "src/holdfast/primitives/kv"
FAMILIES: Final = (
    "strings", "keys", "hashes", "lists", "sets", "zsets", "streams", "compare"
)  # fmt: skip

HEAD: Final = '''"""{about}

Written by scripts/kv_fronts.py from the signatures in `commands/`.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Literal, overload

from holdfast.primitives.kv import commands
{uses}

'''


class Front(NamedTuple):
    """One file that is written."""

    file: str
    about: str
    uses: str
    head: str
    define: str
    answer: str
    run: str


SYNC: Final = Front(
    "sync_commands.py",
    "Commands that block until they are answered.",
    """from holdfast.primitives.kv.backend import KvBackend
from holdfast.primitives.kv.op import Entry""",
    '''class SyncCommands:
    """Every command as a method."""

    __slots__ = ("_backend",)

    def __init__(self, backend: KvBackend) -> None:
        self._backend = backend
''',
    "def",
    "{}",
    "self._backend.execute({})",
)
ASYNC: Final = Front(
    "async_commands.py",
    "Commands that are awaited.",
    """from holdfast.primitives.kv.backend import AsyncBackend
from holdfast.primitives.kv.op import Entry""",
    '''class AsyncCommands:
    """Every command as a coroutine."""

    __slots__ = ("_backend",)

    def __init__(self, backend: AsyncBackend) -> None:
        self._backend = backend
''',
    "async def",
    "{}",
    "await self._backend.execute({})",
)
BATCH: Final = Front(
    "batch_commands.py",
    "Commands that a transaction collects.",
    """from holdfast.primitives.kv.answer import Answer
from holdfast.primitives.kv.op import Entry, Op, T""",
    '''class BatchCommands:
    """Every command as a method that promises an answer."""

    __slots__ = ()

    def add(self, op: Op[T]) -> Answer[T]:
        raise NotImplementedError
''',
    "def",
    "Answer[{}]",
    "self.add({})",
)


AWAITED: Final = (
    "execute", "begin", "close", "commit", "cancel", "take", "give", "ask", "ask_all",
    "get_connection", "release", "disconnect", "sent", "read_response",
)  # fmt: skip
RENAMED: Final = {
    "The live adapter that blocks.": "The live adapter that is awaited: made by scripts/kv_fronts.py.",
    "import threading\n": "import asyncio\n",
    "threading.get_ident()": "asyncio.current_task()",
    "dict[int, ": "dict[object, ",
    "of: int)": "of: object)",
    "by the thread that": "by the task that",
    "import redis\n": "import redis.asyncio\n",
    "redis_py: Any = redis\n": "redis_py: Any = redis.asyncio\n",
    "LiveKV": "AsyncLiveKV",
    "LiveSession": "AsyncLiveSession",
    "connection.send_command(*words, check_health=False)": (
        "wire.sent(connection, connection.send_command(*words, check_health=False))"
    ),
    "connection.send_packed_command(connection.pack_commands(commands), check_health=False)": (
        "wire.sent(connection, connection.send_packed_command("
        "connection.pack_commands(commands), check_health=False))"
    ),
    "connection.disconnect()": "connection.disconnect(nowait=True)",
}


def written() -> dict[Path, str]:
    """Every file that is made, with its text."""
    return {KV / front.file: source(front) for front in (SYNC, ASYNC, BATCH)} | {
        KV / "live/aio.py": awaited((KV / "live/sync.py").read_text("utf-8"))
    }


def source(front: Front) -> str:
    """The text of a front."""
    head = HEAD.format(about=front.about, uses=front.uses)
    methods = [method for family in FAMILIES for method in _methods(family, front)]
    return _formatted("\n".join([head, front.head, *methods]))


def awaited(text: str) -> str:
    """The text of a module that blocks, made to be awaited."""
    for old, new in RENAMED.items():
        text = text.replace(old, new)
    names = "|".join(AWAITED)
    text = re.sub(rf"\bdef ({names})\(", r"async def \1(", text)
    return _formatted(re.sub(rf"(?<!def )(?<![\w.])((?:\w+\.)*(?:{names}))\(", r"await \1(", text))


def _formatted(text: str) -> str:
    made = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(KV / "made.py"), "-"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    return made.stdout


def _methods(family: str, front: Front) -> Iterator[str]:
    tree = ast.parse((KV / "commands" / f"{family}.py").read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and _answer(node) is not None:
            yield _method(family, node, front)


def _answer(node: ast.FunctionDef) -> str | None:
    """What is inside of `Op[...]`."""
    returns = node.returns
    is_op = isinstance(returns, ast.Subscript) and ast.unparse(returns.value) == "Op"
    return ast.unparse(returns.slice) if is_op and isinstance(returns, ast.Subscript) else None


def _method(family: str, node: ast.FunctionDef, front: Front) -> str:
    answer = front.answer.format(_shadowless(_answer(node) or ""))
    head = f"{front.define} {node.name}(self, {_shadowless(ast.unparse(node.args))}) -> {answer}:"
    if node.decorator_list:
        return f"    @overload\n    {head} ...\n"
    doc = (ast.get_docstring(node, clean=True) or "").replace("\n", "\n        ")
    call = front.run.format(f"commands.{family}.{node.name}({_passed(node.args)})")
    return f'    {head}\n        """{doc}"""\n        return {call}\n'


def _shadowless(annotation: str) -> str:
    """In a class with a method `set` the type has to be named otherwise."""
    return annotation.replace("set[str]", "builtins.set[str]")


def _passed(args: ast.arguments) -> str:
    """The parameters as they are handed on."""
    positional = [arg.arg for arg in args.args]
    rest = [f"*{args.vararg.arg}"] if args.vararg else []
    return ", ".join([*positional, *rest, *(f"{arg.arg}={arg.arg}" for arg in args.kwonlyargs)])


def main() -> None:
    for path, text in written().items():
        if "--check" not in sys.argv:
            path.write_text(text, "utf-8")
        elif path.read_text("utf-8") != text:
            raise SystemExit(f"{path.name} is not current: run python scripts/kv_fronts.py")


if __name__ == "__main__":
    main()
