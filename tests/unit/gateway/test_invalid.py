"""What a request that has a wrong field is answered."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec
import pytest

from holdfast.errors import InvalidInput
from holdfast.gateway.feed.requests import Ping, parse
from holdfast.gateway.invalid import invalid, parameters
from holdfast.gateway.rest.apis import APIS
from holdfast.gateway.rest.route import Route
from holdfast.gateway.rest.searching import shape_of


class Item(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    mode: Literal["fast", "slow"] = "fast"


class Body(msgspec.Struct, forbid_unknown_fields=True):
    reason: str
    items: list[Item] = []


@pytest.mark.parametrize(
    ("body", "field", "text"),
    [
        ({}, "reason", "reason: it is missing, and has no default"),
        ({"reason": "r", "itms": []}, "itms", "there is no field 'itms': did you mean 'items'?"),
        ({"reason": "r", "zzz": 1}, "zzz", "zzz: there is no field 'zzz'"),
        ({"reason": "r", "items": [{}]}, "items[0].id", "items[0].id: it is missing"),
        ({"reason": "r", "items": [{"id": "a", "mod": 1}]}, "items[0].mod", "did you mean 'mode'?"),
        ({"reason": "r", "items": [{"id": "a", "mode": "x"}]}, "items[0].mode", "fast, slow"),
        ({"reason": 7}, "reason", "reason: Expected `str`, got `int`"),
    ],
)
def test_the_error_names_the_field_and_what_fits(body: object, field: str, text: str) -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.json.decode(msgspec.json.encode(body), type=Body)
    error = invalid(raised.value, Body)
    assert text in str(error)
    [named] = error.__dict__["fields"]
    assert named["field"].replace("[...]", "[0]") == field


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        ('{"type": "hi"}', "there is no type 'hi': use one of auth, ping, subscribe, unsubscribe"),
        ('{"type": "subscribe", "chanel": "x"}', "no field 'chanel': did you mean 'channel'?"),
        ('{"type": "unsubscribe"}', "id: it is missing"),
    ],
)
def test_a_frame_that_is_wrong_names_what_fits(frame: str, text: str) -> None:
    assert parse('{"type": "ping", "n": 3}') == Ping(3)
    with pytest.raises(InvalidInput) as raised:
        parse(frame)
    assert text in str(raised.value)


LISTS = [route for api in APIS for route in api.routes.all if route.items is not None]
NUMBERS = [
    (route, field.encode_name)
    for api in APIS
    for route in api.routes.all
    for field in msgspec.structs.fields(route.query)
    if int in (field.type, *get_args(field.type))
]


@pytest.mark.parametrize("route", LISTS, ids=lambda route: route.path)
def test_a_bare_word_finds_objects_of_every_list(route: Route) -> None:
    assert route.items is not None
    assert "id" in shape_of(route.items, route.own_keys, route.text_key).fields


@pytest.mark.parametrize(
    ("route", "name"), NUMBERS, ids=lambda value: value if isinstance(value, str) else value.path
)
@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_a_number_that_no_database_has_is_refused(route: Route, name: str, number: int) -> None:
    with pytest.raises(InvalidInput, match=name):
        parameters({name: str(number)}, route.query)


def test_a_parameter_has_no_nul() -> None:
    with pytest.raises(InvalidInput, match="q has a NUL character"):
        parameters({"q": "a\0"}, LISTS[0].query)
