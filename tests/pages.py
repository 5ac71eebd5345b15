"""The generated pages of the reference.

python -m tests.pages        # writes them
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import get_type_hints

from holdfast import (
    BlockingContext,
    BlockingTaskHandle,
    Context,
    TaskFunction,
    TaskHandle,
    TaskQueue,
)
from holdfast.client import (
    Claim,
    Client,
    Node,
    Watch,
    admin_groups,
    fleet_groups,
    groups,
    job_groups,
    webhook_groups,
)
from holdfast.client.api import Rows
from holdfast.core.rights import ORDER, TABLE
from holdfast.core.task import TERMINAL, TRANSITIONS, Status
from holdfast.errors import HoldfastError
from holdfast.metrics import Family
from holdfast.queue.blocking import BlockingQueue
from holdfast.queue.define import TypeOptions
from tests import error_tree
from tests.members import field_docs, member, public_names, signature_of, type_text
from tests.public import FACES, INTERNAL, OTHERS, PUBLIC

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
SRC = ROOT / "src" / "holdfast"
PRODUCT = {
    "TaskQueue": TaskQueue,
    "Context": Context,
    "BlockingContext": BlockingContext,
    "queue.sync": BlockingQueue,
    "TaskFunction": TaskFunction,
    "TaskHandle": TaskHandle,
    "BlockingTaskHandle": BlockingTaskHandle,
}


def page(name: str) -> str:
    return (REFERENCE / name).read_text("utf-8")


def states_page() -> str:
    lines = [
        "# States",
        "",
        "Generated from `TRANSITIONS` in `src/holdfast/core/task.py` by `python -m tests.pages`.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        "    [*] --> blocked: depends on others",
        "    [*] --> queued",
    ]
    for before in Status:
        lines += [f"    {before} --> {after}" for after in Status if after in TRANSITIONS[before]]
    lines += [f"    {status} --> [*]" for status in Status if status in TERMINAL]
    lines += [
        "```",
        "",
        "| status | may become |",
        "|---|---|",
    ]
    for before in Status:
        nexts = ", ".join(f"`{a}`" for a in Status if a in TRANSITIONS[before])
        lines.append(f"| `{before}` | {nexts or 'nothing (final)'} |")
    lines += [
        "",
        "Only a claim moves `queued` to `running`. A failure with attempts left returns to `queued` in one",
        "transaction, with the time of the next attempt. A task that rests in `failed` is a dead letter.",
        "It becomes `blocked` again when the parent that it failed with is replayed. If another parent is",
        "dead too, it stays a dead letter with that parent as its cause.",
        "",
        "A running task becomes `stuck` when its runner reports no progress for its `progress_timeout`;",
        "a later report makes it `running` again. It is `paused` while an operator holds it or it waits",
        "for a decision. `paused` to `completed` is a status that an operator forces, with a result.",
        "",
    ]
    return "\n".join(lines)


def errors_page() -> str:
    lines = [
        "# Errors",
        "",
        "Generated from the `errors` modules by `python -m tests.pages`. Every error that Holdfast",
        "raises is a `HoldfastError` with a stable `code`; `retryable` says whether the same call may",
        "succeed later. The other columns are its HTTP status, gRPC status and exit code.",
    ]
    for module in error_tree.modules():
        if any(error.__module__ == module for error in error_tree.in_order()):
            lines += ["", f"## `{imported_from(module)}`", "", *table_of(module)]
    return "\n".join([*lines, "", "## The tree", "", "```", *tree(HoldfastError), "```", ""])


def imported_from(module: str) -> str:
    """The public module of the errors: `holdfast.kv` for `holdfast.primitives.kv.errors`."""
    if module == "holdfast.core.errors":
        return "holdfast.client"
    return (
        module.replace(".primitives", "").removesuffix(".errors")
        if ".primitives." in module
        else module
    )


def table_of(module: str) -> list[str]:
    return [
        "| code | class | is a | retryable | HTTP | gRPC | exit |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| `{error.code}` | `{error.__name__}` | `{error.__mro__[1].__name__}` "
            f"| {'yes' if error.retryable else 'no'} "
            f"| {error.http_status} | {error.grpc_status} | {error.exit_code} |"
            for error in error_tree.in_order()
            if error.__module__ == module
        ),
    ]


def tree(error: error_tree.Error, here: str = "", below: str = "") -> list[str]:
    """One line for each error, with the first line of its docstring."""
    summary = (error.__doc__ or "").splitlines()[0]
    lines = [f"{here + error.__name__:<32} {summary}"]
    children = error_tree.children(error)
    for child in children:
        is_last = child is children[-1]
        lines += tree(
            child, below + ("└─ " if is_last else "├─ "), below + ("   " if is_last else "│  ")
        )
    return lines


def all_families() -> dict[str, list[Family]]:
    """The `FAMILIES` of all modules that declare them, by module."""
    by_module: dict[str, list[Family]] = {}
    for path in sorted(SRC.rglob("*.py")):
        if not re.search(r"^FAMILIES\b", path.read_text("utf-8"), re.MULTILINE):
            continue
        name = ".".join(path.relative_to(SRC.parent).with_suffix("").parts)
        by_module[name] = list(importlib.import_module(name).FAMILIES)
    return by_module


def metrics_page() -> str:
    lines = [
        "# Metrics",
        "",
        "Generated from the `FAMILIES` of each part by `python -m tests.pages`. A part counts if it has",
        "a meter: `Metrics(FAMILIES, ...)` keeps the figures and renders them for Prometheus, and",
        "`holdfast.primitives.prometheus.collector(metrics)` adds them to a `prometheus_client` registry.",
        "A label has at most 100 values; further values are counted under `other`. Servers, workers and",
        "`holdfast metrics` serve them: [Watch it](../howto/watching.md).",
    ]
    for module, families in all_families().items():
        lines += ["", f"## `{module}`", "", "| name | kind | labels | what |", "|---|---|---|---|"]
        for family in families:
            labels = ", ".join(f"`{label}`" for label in family.labels)
            lines.append(f"| `{family.name}` | {family.kind.value} | {labels} | {family.help} |")
    return "\n".join([*lines, ""])


def public_page() -> str:
    lines = [
        "# Public names",
        "",
        "Generated from `tests/public.py` by `python -m tests.pages`. These names are public: a",
        "change that breaks them is in the [changelog](../../CHANGELOG.md). The command line and the",
        "pages of this reference are public too. Every other module is internal and may change without",
        "notice, and so may every name with a leading underscore. Internal below `holdfast`:",
        ", ".join(f"`.{name}`" for name in INTERNAL) + ",",
        "and the modules of `holdfast.client`, `holdfast.orders` and `holdfast.testing`. The docstrings say",
        "so.",
        "",
        "| import from | names |",
        "|---|---|",
        *(f"| `{module}` | {names_of(module)} |" for module in FACES),
        "",
        "Errors, clocks and metrics:",
        "",
        "| import from | names |",
        "|---|---|",
        *(f"| `{module}` | {names_of(module)} |" for module in OTHERS),
    ]
    return "\n".join([*lines, ""])


def names_of(module: str) -> str:
    return ", ".join(f"`{name}`" for name in PUBLIC[module])


def queue_page() -> str:
    lines = [
        "# The queue in Python",
        "",
        "Generated from the docstrings by `python -m tests.pages`. How to use it:",
        "[howto/tasks.md](../howto/tasks.md). What calls take and return: [values.md](values.md).",
        "Every error is in [errors.md](errors.md).",
    ]
    for title, cls in PRODUCT.items():
        lines += ["", f"## `{title}`", "", inspect.cleandoc(cls.__doc__ or "")]
        for name in public_names(cls, own_first=True):
            lines += ["", f"### `{name}`", "", *member(cls, name)]
    lines += ["", "## Options of a task type", ""]
    lines += ["`@queue.task(...)` and `queue.register_handler(...)` take:", ""]
    lines += [inspect.cleandoc(TypeOptions.__doc__ or ""), ""]
    lines += ["| option | type | default | meaning |", "|---|---|---|---|"]
    meanings = field_docs(TypeOptions)
    for name, kind in get_type_hints(TypeOptions).items():
        shown = type_text(kind).replace("|", "\\|")
        default, meaning = meanings[name].split(": ", maxsplit=1)
        lines.append(f"| `{name}` | `{shown}` | {default} | {meaning} |")
    return "\n".join([*lines, ""])


CLIENT = {
    "Client": Client,
    "client.queues": groups.Queues,
    "client.task_groups": groups.TaskGroups,
    "client.dead_letters": groups.DeadLetters,
    "client.operations": groups.Operations,
    "client.nodes": groups.Nodes,
    "client.locks": groups.LockViews,
    "client.schedules": groups.Schedules,
    "client.decisions": groups.Decisions,
    "client.conflicts": admin_groups.Conflicts,
    "client.tokens": admin_groups.Tokens,
    "client.projects": admin_groups.Projects,
    "client.audit": admin_groups.Audit,
    "client.hosts": fleet_groups.Hosts,
    "client.groups": fleet_groups.HostGroups,
    "client.blocks": fleet_groups.Blocks,
    "client.jobs": job_groups.Jobs,
    "client.webhooks": webhook_groups.Webhooks,
    "Rows": Rows,
    "Watch": Watch,
    "Node": Node,
    "Claim": Claim,
}


def client_page() -> str:
    lines = [
        "# The client in Python",
        "",
        "Generated from the docstrings by `python -m tests.pages`. How to use it:",
        "[howto/client.md](../howto/client.md) and [howto/offline.md](../howto/offline.md). `BlockingClient`",
        "has the same calls without `await`; its lists are plain iterators. The fields of the objects are in",
        "[objects.md](objects.md), every error is in [errors.md](errors.md).",
    ]
    for title, cls in CLIENT.items():
        lines += ["", f"## `{title}`", "", inspect.cleandoc(cls.__doc__ or "")]
        if title == "Client":
            shown = signature_of(cls).replace("holdfast.", "")
            lines += ["", "```", f"{title}{shown}".replace(" -> None", ""), "```"]
        for name in public_names(cls):
            lines += ["", f"### `{name}`", "", *member(cls, name)]
    return "\n".join([*lines, ""])


def with_rights(text: str) -> str:
    """The page of the server with the table of roles."""
    lines = [
        f"| operation | {' | '.join(ORDER)} |",
        "|---|" + "---|" * len(ORDER),
        *(f"| `{operation}` | {' | '.join(cells.split())} |" for operation, cells in TABLE),
    ]
    table = "\n".join(["<!-- rights -->", *lines, "<!-- /rights -->"])
    return re.sub(r"<!-- rights -->.*<!-- /rights -->", lambda _: table, text, flags=re.DOTALL)


if __name__ == "__main__":
    (REFERENCE / "server.md").write_text(with_rights(page("server.md")), "utf-8")
    (REFERENCE / "queue.md").write_text(queue_page(), "utf-8")
    (REFERENCE / "client.md").write_text(client_page(), "utf-8")
    (REFERENCE / "states.md").write_text(states_page(), "utf-8")
    (REFERENCE / "errors.md").write_text(errors_page(), "utf-8")
    (REFERENCE / "metrics.md").write_text(metrics_page(), "utf-8")
    (REFERENCE / "public.md").write_text(public_page(), "utf-8")
    from tests import module_pages  # It imports this module.

    for name, text in module_pages.written().items():
        (REFERENCE / name).write_text(text, "utf-8")
