"""Help from the table of verbs, without any library.

Promises: takes only milliseconds more than a bare interpreter. Never: imports a command to describe it.
"""

from __future__ import annotations

import textwrap
from typing import Final

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
  -o, --output    table, wide (no column is cut), json, jsonl or name
  --color         auto, always or never (NO_COLOR, FORCE_COLOR are honoured)

Lists take -q QUERY, the search of the API: 'status:failed type:mail age:>1h'.
Changes take --dry-run, which shows the outcome, and --reason (-m).
An id may be shortened to a prefix that matches one; @last is the newest;
- reads ids from stdin.
"""
CODES = textwrap.fill(
    f"Exit codes: {', '.join(f'{code.value} {text}' for code, text in SHORT.items())}.", 79
)
END = """\
Help for one command: holdfast COMMAND --help
Help for a topic:     holdfast help search|formatting|environment|exit-codes
New here?             holdfast demo, holdfast dev --open"""
_EXITS = "\n".join(f"  {code.value:>3}  {text}" for code, text in SHORT.items())
TOPICS: Final = {
    "search": """\
Lists take -q QUERY. The API (?q=) and the Control Center have the same search.

  status:failed            a field has a value      type:mail,sms   any of them
  type:mail*               a glob                   error:~timeout  part of a text
  attempt:>3  version:1..5 numbers                  args.user.id:7  of the payload
  age:>1h  created:>-2h    durations and times      key:*           has a value
  -queue:low               not                      (a OR b) c      OR, AND
  sort:-created            the order                01a1f0          start of an id

Keys of tasks: status type queue project node priority attempt version held why
job host error fingerprint age created updated due finished args.PATH meta.PATH
lock decision. Other lists: the fields of their objects.

Examples:
  holdfast task list -q 'status:failed type:mail.* age:>1h -queue:low'
  holdfast dlq replay -q 'error:~timeout' --dry-run
""",
    "formatting": """\
  -o table   columns that fit the terminal; nothing is cut in a pipe (default)
  -o wide    a table with all columns
  -o json    one document
  -o jsonl   one object a line, at once
  -o name    one id a line, for - of another command

JSON has the objects of the API. It is also valid YAML. For CSV, with jq:
  holdfast task list -o json | jq -r '.[] | [.id, .type, .status] | @csv'

Colours: --color auto|always|never, NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE, and
TERM=dumb. Progress: --progress auto|tty|plain|json|quiet.
""",
    "environment": """\
  HOLDFAST_URL         the store, as --url
  HOLDFAST_GATEWAY     the gateway, as --gateway
  HOLDFAST_TOKEN       the token of the gateway, as --token
  HOLDFAST_TOKEN_FILE  a file that has the token
  HOLDFAST_OUTPUT      as --output        HOLDFAST_COLOR     as --color
  HOLDFAST_PROGRESS    as --progress      HOLDFAST_DEBUG     show tracebacks
  NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE, TERM=dumb

An option counts more than the environment, and that more than [holdfast] of
holdfast.toml. `holdfast config explain` shows each setting and its origin.
""",
    "exit-codes": f"""\
{_EXITS}

An error is one line on stderr, error[CODE]: what happened, why, what to do;
with -o json a problem object (RFC 9457).
""",
}
"""What `holdfast help` explains beside the commands."""


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
        END,
    ]
    return "\n".join(parts)


def topic(name: str) -> str:
    """The output of `holdfast help TOPIC`."""
    return TOPICS[name]


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
    size = max(16, *(len(verb.path) for verb in verbs))
    lines = [f"  {verb.path:<{size}}  {verb.summary}" for verb in verbs]
    return "\n".join([f"{title}:", *lines, ""])
