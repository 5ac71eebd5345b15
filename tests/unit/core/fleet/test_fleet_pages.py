"""The examples of the pages about lists of hosts and command types."""

from __future__ import annotations

import re
import tomllib

import pytest

from holdfast.core.fleet.commands.command_type import SHIPPED, CommandType, command_types
from holdfast.core.fleet.hosts.inventory import InventoryFormat, read_inventory
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.fleet.jobs.spec import argv_of, check_request
from holdfast.core.fleet.rules import RULES
from tests.pages import page


@pytest.mark.parametrize("format", ["jsonl", "text", "ansible"])
def test_an_example_of_a_list_is_read(format: str) -> None:
    text = page("inventory.md").partition(f"## {format}\n")[2]
    example = re.search(r"```\n(.*?)```", text, re.DOTALL)
    assert example is not None
    found = read_inventory(example[1], format)
    assert found.problems == ()
    hosts = {entry.name: entry for entry in found.entries}
    assert {"web-01", "web01"} & set(hosts)
    if format == "ansible":
        assert hosts["db-1"].address == "ops@10.0.0.9:2222"
        assert hosts["web02"].labels == {"env": "prod", "http_port": "80"}
        assert set(found.groups) == {"web", "db", "prod"}


def test_the_page_names_every_format() -> None:
    assert re.findall(r"^\| `([\w-]+)` \|", page("inventory.md"), re.MULTILINE) == [
        format.value for format in InventoryFormat
    ]


def test_the_page_of_types_has_those_that_are_shipped_and_all_keys() -> None:
    names = re.findall(r"^\| `([\w-]+)` \|", page("command_types.md"), re.MULTILINE)
    keys = [name for name in CommandType.__struct_fields__ if name != "name"]
    assert names[: len(SHIPPED)] == list(SHIPPED)
    assert names[len(SHIPPED) : -4] == keys


def test_the_type_of_the_page_can_be_used() -> None:
    example = re.search(r"```toml\n(.*?)```", page("command_types.md"), re.DOTALL)
    assert example is not None
    types = command_types(tomllib.loads(example[1])["fleet"]["command_types"])
    request = JobRequest(
        command_type="deploy",
        command="web 'the shop'",
        args={"release": "1.2"},
        env={"APP_MODE": "blue"},
        hosts=["a"],
    )
    spec = check_request(request, types, RULES)
    assert argv_of(spec) == ("deploy", "--release", "1.2", "--", "web", "the shop")
    assert spec.exec_timeout_seconds == 300
