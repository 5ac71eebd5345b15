"""Loads the queue object that `MODULE:ATTRIBUTE` names.

Promises: the working folder is importable; a bad name or a broken module raises one error with advice; an
error inside the module names its file and line.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from holdfast.cli.import_error import file_and_line, short_trace
from holdfast.core.check import shown
from holdfast.errors import BadConfig
from holdfast.queue.queue import Queue


def load_queue(target: str) -> Queue:
    """Imports the module and returns the queue."""
    module_name, sign, attribute = target.partition(":")
    if not sign or not module_name or not attribute:
        raise BadConfig(f"'{target}' does not name a queue: write MODULE:QUEUE, e.g. myapp:queue")
    if module_name.endswith(".py") or "/" in module_name:
        parts = Path(module_name).with_suffix("").parts
        dotted = ".".join(part for part in parts if part not in (".", "..", "/"))
        raise BadConfig(
            f"'{module_name}' is a file, not the name of a module: write {dotted}:{attribute}, and run the "
            "command where the module can be imported"
        )
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = _import(module_name)
    value: object = module
    for name in attribute.split("."):
        value = getattr(value, name, None)
        if value is None:
            raise BadConfig(f"module '{module_name}' has no '{attribute}': {_advice(module)}")
    if not isinstance(value, Queue):
        raise BadConfig(f"'{target}' is {shown(value)}, not a queue: {_advice(module)}")
    return value


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise BadConfig(
                f"there is no module '{name}' in {Path.cwd().name}/ nor installed: run this where "
                "your application lives, or check the name"
            ) from None
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> BadConfig:
    text = str(error.msg if isinstance(error, SyntaxError) else error)
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    problem = BadConfig(f"module '{name}' cannot be imported: {reason}{file_and_line(error)}")
    problem.add_note(short_trace(error))
    return problem


def _advice(module: ModuleType) -> str:
    """Suggests queues that the module has under other names."""
    names = [name for name, value in vars(module).items() if isinstance(value, Queue)]
    if not names:
        return "define one: queue = TaskQueue('sqlite:///holdfast.db')"
    return f"did you mean {' or '.join(f'{module.__name__}:{name}' for name in names)}?"
