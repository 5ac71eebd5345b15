"""Help from the table of verbs, without any library.

Promises: takes only milliseconds more than a bare interpreter. Never: imports a command to describe it.
"""

from __future__ import annotations

from holdfast.cli.tree import NOUNS, VERBS
from holdfast.cli.verb import Verb

COMMON = """\
Options of every command that reads the store:
  --url URL         the store: sqlite:///file.db or postgresql://user@host/database
                    (else HOLDFAST_URL, else url in [holdfast] of holdfast.toml, else
                    sqlite:///holdfast.db)
  --gateway URL     a gateway in place of the store, e.g. holdfast://host:8787; several with
                    commas (else HOLDFAST_GATEWAY)
  --token TOKEN     the token of the gateway (else HOLDFAST_TOKEN)
  -o, --output      table, json, jsonl or name
  --color           auto, always or never (NO_COLOR and FORCE_COLOR are honoured)

An id may be shortened to a prefix that matches one task; @last is the newest; - reads ids from stdin.
Exit codes: 0 ok, 1 failed, 2 usage, 3 partly failed, 4 token refused or right missing, 5 not found,
6 conflict, 7 timeout, 8 waits for a decision or an approval, 9 rejected, 10 unavailable,
130 interrupted.
"""


def top() -> str:
    """The output of `holdfast --help`."""
    single = [verb for verb in VERBS if " " not in verb.path]
    parts = [
        "Holdfast: a durable task queue on SQLite and PostgreSQL.\n",
        "Usage: holdfast COMMAND [ARGUMENTS] [OPTIONS]\n",
        _block("Commands", single),
    ]
    parts += [_block(title, _of(noun)) for noun, title in NOUNS.items()]
    parts += [COMMON, "Help for one command: holdfast COMMAND --help. New here? Try: holdfast demo"]
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
            COMMON,
        ]
    )


def _of(name: str) -> list[Verb]:
    return [verb for verb in VERBS if verb.path.startswith(f"{name} ")]


def _block(title: str, verbs: list[Verb]) -> str:
    lines = [f"  {verb.path:<16}  {verb.summary}" for verb in verbs]
    return "\n".join([f"{title}:", *lines, ""])
