"""Money: exact decimal numbers, or a typed refusal.

Promises: equal amounts have equal text (1.50 is 1.5). Never: NaN, infinity, zero, a negative number, or a
number that only approximates what the caller meant.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Final, TypeAlias

from holdfast.core.check import shown
from holdfast.errors import InvalidInput
from holdfast.orders.errors import InvalidOrder

Money: TypeAlias = Decimal | int | str | float
"""What a caller may pass. A float must have at most 15 digits."""

DIGITS_MAX: Final = 36
PLACES_MAX: Final = 18
FLOAT_DIGITS_MAX: Final = 15
"""Every number of up to 15 digits has a distinct float. A float that needs more digits came from
arithmetic."""
_exact: Final = Context(prec=DIGITS_MAX + PLACES_MAX)
_ONE: Final = Decimal(1)
_FINEST: Final = Decimal(1).scaleb(-PLACES_MAX)


def positive(value: Money, what: str) -> Decimal:
    """An amount above zero, in its shortest form."""
    try:
        return _positive(value, what)
    except TypeError:  # Unhashable, e.g. a list, or a signalling NaN.
        raise InvalidOrder(f"{what} is {shown(value)}: it must be a number") from None


@lru_cache(maxsize=4096, typed=True)
def _positive(value: Money, what: str) -> Decimal:
    number = _read(value, what)
    if not number.is_finite():
        raise InvalidOrder(f"{what} is {shown(value)}: it must be a number")
    if number <= 0:
        raise InvalidOrder(f"{what} is {shown(value)}: it must be above zero")
    if number.adjusted() >= DIGITS_MAX - PLACES_MAX or number.adjusted() < -PLACES_MAX:
        raise _too_fine(value, what)
    number = number.normalize(_exact)
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    if -exponent > PLACES_MAX or len(digits) > DIGITS_MAX:
        raise _too_fine(value, what)
    return number.quantize(_ONE, context=_exact) if exponent > 0 else number


def check_amount(
    field: str,
    value: object,
    *,
    below: Decimal | None = None,
    wrong: type[InvalidInput] = InvalidInput,
) -> None:
    """An exact number that may be zero: a limit, or a market price."""
    if not isinstance(value, Decimal | int) or isinstance(value, bool):
        raise wrong(f"{field} is {shown(value)}: give a Decimal")
    number = Decimal(value)
    if not number.is_finite() or number < 0:
        raise wrong(f"{field} is {shown(value)}: give a Decimal, 0 or more")
    if below is not None and number >= below:
        raise wrong(f"{field} is {shown(value)}: give a Decimal below {below}")


def rounded(value: Decimal, rounding: str = ROUND_HALF_EVEN) -> Decimal:
    """An amount that another system computed, rounded to the places that are stored."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or -exponent <= PLACES_MAX:
        return value
    return value.quantize(_FINEST, rounding, _exact)


def _read(value: Money, what: str) -> Decimal:
    if isinstance(value, Decimal):
        return value
    if isinstance(value, bool) or not isinstance(value, int | str | float):
        raise InvalidOrder(
            f"{what} is a {type(value).__name__}: pass a Decimal, a whole number or text"
        )
    if isinstance(value, float):
        return _read_float(value, what)
    if isinstance(value, str) and len(value) > 2 * DIGITS_MAX:
        raise InvalidOrder(f"{what} is a text of {len(value)} characters, not an amount")
    try:
        return Decimal(value)
    except InvalidOperation:
        raise InvalidOrder(f"{what} is {shown(value)}: it must be a number") from None


def _read_float(value: float, what: str) -> Decimal:
    number = Decimal(repr(value))
    if number.is_finite() and len(number.normalize(_exact).as_tuple().digits) > FLOAT_DIGITS_MAX:
        raise InvalidOrder(
            f"{what} is the float {value!r}, which has more than {FLOAT_DIGITS_MAX} digits and so is "
            "likely not what was meant: pass a Decimal or text"
        )
    return number


def _too_fine(value: object, what: str) -> InvalidOrder:
    return InvalidOrder(
        f"{what} is {shown(value)}: at most {DIGITS_MAX - PLACES_MAX} digits before the point and "
        f"{PLACES_MAX} after it are kept"
    )
