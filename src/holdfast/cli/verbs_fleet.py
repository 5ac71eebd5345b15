"""Verbs of hosts, groups and blocks."""

from __future__ import annotations

from typing import Final

from holdfast.cli.verb import FLEET, Kind, Verb

FLEET_VERBS: Final = (
    Verb(
        "host list",
        "List hosts, by name",
        f"{FLEET}.host:list_",
        (
            "holdfast host list",
            "holdfast host list 'role=web&zone=eu' -o name",
        ),
        Kind.LIST,
    ),
    Verb(
        "host show",
        "Show a host with its facts, groups and blocks",
        f"{FLEET}.host:show",
        ("holdfast host show web-001",),
        Kind.SHOW,
    ),
    Verb(
        "host select",
        "Show the hosts that a selector stands for",
        f"{FLEET}.host:select",
        ("holdfast host select 'web-[001-987]!web-007'",),
        Kind.SHOW,
    ),
    Verb(
        "host add",
        "Add a host",
        f"{FLEET}.host_change:add",
        (
            "holdfast host add web-001 --label role=web --label zone=eu",
            "holdfast host add db-1 --driver ssh --address db-1.example:22",
        ),
        Kind.WRITE,
    ),
    Verb(
        "host edit",
        "Change fields of a host",
        f"{FLEET}.host_change:edit",
        ('holdfast host edit web-001 --state cordoned -m "disk swap"',),
        Kind.WRITE,
    ),
    Verb(
        "host label",
        "Set and remove labels of the hosts of a selector",
        f"{FLEET}.host_change:label",
        ("holdfast host label 'web-[001-050]' role=web canary-",),
        Kind.WRITE,
    ),
    Verb(
        "host remove",
        "Remove hosts",
        f"{FLEET}.host_change:remove",
        (
            'holdfast host remove web-007 -m "sold"',
            "holdfast host list zone=old -o name | holdfast host remove - --dry-run",
        ),
        Kind.WRITE,
    ),
    Verb(
        "host import",
        "Add and change many hosts from a file",
        f"{FLEET}.host_import:import_",
        (
            "holdfast host import hosts.jsonl",
            "holdfast host import inventory.ini --format ansible --groups --dry-run",
            "echo 'web-[001-050] role=web' | holdfast host import - --format text",
        ),
        Kind.WRITE,
    ),
    Verb(
        "group list",
        "List groups of hosts",
        f"{FLEET}.group:list_",
        ("holdfast group list",),
        Kind.LIST,
    ),
    Verb(
        "group show",
        "Show a group with its hosts",
        f"{FLEET}.group:show",
        ("holdfast group show blue",),
        Kind.SHOW,
    ),
    Verb(
        "group add",
        "Give a selector a name",
        f"{FLEET}.group:add",
        ("holdfast group add blue 'role=web&zone=eu'",),
        Kind.WRITE,
    ),
    Verb(
        "group edit",
        "Give a group another selector",
        f"{FLEET}.group:edit",
        ("holdfast group edit blue 'role=web&zone=us' --dry-run",),
        Kind.WRITE,
    ),
    Verb(
        "group remove",
        "Remove groups; their hosts stay",
        f"{FLEET}.group:remove",
        ("holdfast group remove blue",),
        Kind.WRITE,
    ),
    Verb(
        "block list",
        "List what keeps commands off hosts",
        f"{FLEET}.block:list_",
        (
            "holdfast block list",
            "holdfast block list --host web-001",
        ),
        Kind.LIST,
    ),
    Verb(
        "block show",
        "Show a block with its hosts",
        f"{FLEET}.block:show",
        ("holdfast block show blk_0199a1b27c3e",),
        Kind.SHOW,
    ),
    Verb(
        "block add",
        "Keep commands off hosts",
        f"{FLEET}.block:add",
        (
            'holdfast block add --host web-007 -m "disk swap" --expires 2h',
            "holdfast block add --hosts role=db --type 'restart*' --effect hold -m \"month end\"",
        ),
        Kind.WRITE,
    ),
    Verb(
        "block edit",
        "Change a block",
        f"{FLEET}.block:edit",
        ("holdfast block edit blk_0199a1b27c3e --expires never",),
        Kind.WRITE,
    ),
    Verb(
        "block lift",
        "End blocks",
        f"{FLEET}.block:lift",
        ('holdfast block lift blk_0199a1b27c3e -m "disk is in"',),
        Kind.WRITE,
    ),
    Verb(
        "block remove",
        "End blocks: the same as lift",
        f"{FLEET}.block:lift",
        ("holdfast block remove blk_0199a1b27c3e",),
        Kind.WRITE,
    ),
)
