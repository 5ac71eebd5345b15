"""The start of a handler process, which imports the main module of the program.

Promises: while that import runs, the process opens, starts and enqueues nothing; the error names the
guard that the program lacks. Without the guard, each handler process would run the whole program again,
with its effects.
"""

from __future__ import annotations

import multiprocessing
from typing import Final

from holdfast.errors import BadConfig

NAME: Final = "holdfast-handler"
"""The name of the process. multiprocessing sets it before it imports the main module."""
GUARD: Final = 'if __name__ == "__main__":'
UNGUARDED: Final = (
    "a handler with isolation='process' runs in a process that imports the program's main module, and the "
    f"program would run once more there: put what it does (asyncio.run(...)) under `{GUARD}`"
)


def refuse_second_run() -> None:
    """BadConfig in a handler process that is still importing the main module."""
    process = multiprocessing.current_process()
    # multiprocessing's "spawn" sets this until the main module is imported. Its own check reads it too.
    if process.name == NAME and getattr(process, "_inheriting", False):
        raise BadConfig(f"the main module has no guard: {UNGUARDED}")


def died(code: int | None, *, booted: bool) -> str:
    """Why a handler process gave no answer. Without an exit code the process was still running."""
    if code is None:
        return "the handler's process closed its connection to the worker, and was killed"
    if booted or code < 0:
        return f"the handler's process ended with exit code {code} and no answer"
    return (
        f"the handler's process ended with exit code {code} while it imported the program's main module "
        f"(its traceback is on stderr). If the guard is missing there: {UNGUARDED}"
    )
