"""Finds the queue object that `MODULE:ATTRIBUTE` names.

Promises: the working folder is importable; whatever is wrong with the name, or with the module itself,
is one error that says what to do; an error of the module names its file and line.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from holdfast.cli.worker.import_error import file_and_line, short_trace
from holdfast.errors import BadConfig
from holdfast.queue.queue import Queue


def load_queue(target: str) -> Queue:
    """The queue, with at least one handler."""
    module_name, sign, attribute = target.partition(":")
    if not sign or not module_name or not attribute:
        raise BadConfig(f"'{target}' does not name a queue: write MODULE:QUEUE, e.g. myapp:queue")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = _import(module_name)
    found: object = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise BadConfig(f"module '{module_name}' has no '{attribute}': {_advice(module)}")
    if not isinstance(found, Queue):
        raise BadConfig(f"'{target}' is a {type(found).__name__}, not a queue: {_advice(module)}")
    return found


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
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    found = BadConfig(f"module '{name}' cannot be imported: {said}{file_and_line(error)}")
    found.add_note(short_trace(error))
    return found


def _advice(module: ModuleType) -> str:
    """Queues that the module has under other names."""
    names = [name for name, value in vars(module).items() if isinstance(value, Queue)]
    if not names:
        return "define one: queue = TaskQueue('sqlite:///holdfast.db')"
    return f"did you mean {' or '.join(f'{module.__name__}:{name}' for name in names)}?"
