"""Help from the table of verbs, without any library.

Promises: takes only milliseconds more than a bare interpreter. Never: imports a command to describe it.
"""

from __future__ import annotations

import textwrap

from holdfast.cli.exits import SHORT
from holdfast.cli.tree import NOUNS, VERBS
from holdfast.cli.verb import Verb

COMMON = """\
Options of every command that reads the store:
  --url URL       the store: sqlite:///file.db or postgresql://user@host/db
                  (else HOLDFAST_URL, else url in [holdfast] of holdfast.toml,
                  else sqlite:///holdfast.db)
  --app M:QUEUE   the store of a queue of your application, e.g. myapp:queue
  --gateway URL   a gateway in place of the store, e.g. holdfast://host:8787;
                  several with commas (else HOLDFAST_GATEWAY)
  --token TOKEN   the token of the gateway (else HOLDFAST_TOKEN)
  -o, --output    table, json, jsonl or name
  --color         auto, always or never (NO_COLOR, FORCE_COLOR are honoured)

Lists take -q QUERY, the search of the API: 'status:failed type:mail age:>1h'.
Changes take --dry-run, which shows the outcome, and --reason (-m).
An id may be shortened to a prefix that matches one; @last is the newest;
- reads ids from stdin.
"""
CODES = textwrap.fill(
    f"Exit codes: {', '.join(f'{code.value} {text}' for code, text in SHORT.items())}.", 79
)
END = "Help for one command: holdfast COMMAND --help. New here? Try: holdfast demo"


def top() -> str:
    """The output of `holdfast --help`."""
    single = [verb for verb in VERBS if " " not in verb.path]
    parts = [
        "Holdfast: a durable task queue on SQLite and PostgreSQL.\n",
        "Usage: holdfast COMMAND [ARGUMENTS] [OPTIONS]\n",
        _block("Commands", single),
    ]
    parts += [_block(title, _of(noun)) for noun, title in NOUNS.items()]
    parts += [
        COMMON + CODES + "\n",
        "Help for one command: holdfast COMMAND --help. New here? Try: holdfast demo",
    ]
    return "\n".join(parts)


def noun(name: str) -> str:
    """The output of `holdfast task --help`."""
    verbs = _of(name)
    examples = "\n".join(f"  {each}" for verb in verbs for each in verb.examples)
    return "\n".join(
        [
            f"Usage: holdfast {name} VERB [ARGUMENTS] [OPTIONS]\n",
            _block(NOUNS[name], verbs),
            f"Examples:\n{examples}\n",
            f"{COMMON}{CODES}\n",
        ]
    )


def _of(name: str) -> list[Verb]:
    return [verb for verb in VERBS if verb.path.startswith(f"{name} ")]


def _block(title: str, verbs: list[Verb]) -> str:
    lines = [f"  {verb.path:<16}  {verb.summary}" for verb in verbs]
    return "\n".join([f"{title}:", *lines, ""])
