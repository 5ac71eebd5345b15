"""What happens to one order: pure functions of the order and what was said about it.

Promises: an order only ever moves along `TRANSITIONS`; what was filled never falls and never passes what
was ordered; a state and the filled quantity agree. Never: I/O, clocks; `now` is an argument.
"""

from __future__ import annotations

import hashlib
import re
from decimal import Context, Decimal
from typing import Final

from msgspec.structs import replace

from holdfast.core.check import check_name, check_text, check_whole, shown
from holdfast.core.text import printable
from holdfast.errors import IllegalTransition, VersionConflict
from holdfast.orders.errors import InvalidOrder, OverFill
from holdfast.orders.model.order import TRANSITIONS, ZERO, Order, OrderState, Side

SYMBOL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}")
NAME: Final = re.compile(r"[A-Za-z0-9._:/-]{1,64}")
TAKEN: Final = re.compile(r"(?:open|meta|events|keys)\Z|by_symbol:")
KEY_MAX: Final = 200
COUNT_MAX: Final = 2**63 - 1
REASON_MAX: Final = 500
_exact: Final = Context(prec=100)


def client_order_id(namespace: str, *parts: str) -> str:
    """The name of an order, at ours and at the exchange: 35 characters that exchanges accept. The same
    parts give the same name in every process, for ever."""
    text = "\x00".join((namespace, *parts))
    return "hf-" + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def check_id(name: object) -> str:
    """Of an order that comes from elsewhere; ours always fit."""
    if not isinstance(name, str) or NAME.fullmatch(name) is None or TAKEN.match(name):
        raise InvalidOrder(
            f"client_order_id is {shown(name)}: use up to 64 letters, digits and ._:/- (not 'open', 'meta', "
            "'events', 'keys' or 'by_symbol:…', which name indexes)"
        )
    return name


def check_reference(client_order_id: object) -> str:
    """The id of an order that is looked for: text that every store can compare."""
    return check_name("client_order_id", client_order_id, wrong=InvalidOrder)


def check_count(field: str, value: object) -> int | None:
    """A version or an epoch, when one is given."""
    if value is None:
        return None
    return check_whole(field, value, least=0, most=COUNT_MAX, wrong=InvalidOrder)


def check_symbol(symbol: str) -> str:
    if not isinstance(symbol, str) or SYMBOL.fullmatch(symbol) is None:
        raise InvalidOrder(
            f"the symbol is {shown(symbol)}: use up to 64 letters, digits and ._:/- (e.g. BTCUSDT)"
        )
    return symbol


def check_key(key: str | None) -> str | None:
    if key is None:
        return None
    return check_name("the idempotency key", key, most=KEY_MAX, wrong=InvalidOrder)


def check_reason(reason: str) -> str:
    """Of a caller, who can give another."""
    return check_text("the reason", reason, most=REASON_MAX, wrong=InvalidOrder)


def clean_reason(text: object) -> str:
    """What came from outside, as a reason that every store takes: a bad character stops no freeze."""
    try:
        words = str(text)
    except Exception:  # an error whose text cannot be had is still a reason
        words = f"a {type(text).__name__}"
    return printable(words, "\N{REPLACEMENT CHARACTER}")[:REASON_MAX]


def is_unheard(order: Order) -> bool:
    """Whether the exchange never said anything about it. What it accepts is its second version at least,
    so a cancel that was wanted of an accepted order is its third."""
    if order.filled_qty:
        return False
    wanted_gone = order.state is OrderState.CANCEL_PENDING and order.version == 2
    return order.state is OrderState.PENDING or wanted_gone


def check_version(order: Order, expected: int | None) -> None:
    if expected is not None and order.version != expected:
        raise VersionConflict(
            f"order {order.client_order_id} is at version {order.version}, not {expected}: "
            "read it again and decide anew"
        )


def check_consistent(order: Order) -> None:
    """Raises InvalidOrder unless what the order says of itself can be true."""
    wrong = ""
    match order.state:
        case OrderState.PENDING | OrderState.OPEN | OrderState.REJECTED:
            wrong = "with something filled" if order.filled_qty else ""
        case OrderState.PARTIALLY_FILLED:
            wrong = "" if ZERO < order.filled_qty < order.qty else "but not partially filled"
        case OrderState.FILLED:
            wrong = "" if order.filled_qty == order.qty else "but not filled"
        case OrderState.CANCEL_PENDING:
            wrong = "but filled" if order.filled_qty >= order.qty else ""
        case OrderState.CANCELED:
            wrong = "with more filled than ordered" if order.filled_qty > order.qty else ""
    if not wrong and (order.filled_qty > ZERO) != (order.avg_fill_price is not None):
        wrong = "with a filled quantity and no average price, or the other way round"
    if wrong:
        raise InvalidOrder(
            f"order {order.client_order_id} is {order.state} {wrong} "
            f"({order.filled_qty} of {order.qty})"
        )


def asked(order: Order) -> tuple[str, Side, Decimal, Decimal]:
    """What an order was placed with, which never changes: the fingerprint of its request."""
    return order.symbol, order.side, order.qty, order.price


def as_placed(order: Order) -> Order:
    """The order as it was when it was placed: what the first caller was answered."""
    return replace(
        order,
        state=OrderState.PENDING,
        filled_qty=ZERO,
        avg_fill_price=None,
        version=1,
        updated_at=order.created_at,
    )


def moved(order: Order, state: OrderState, now: float) -> Order | None:
    """The order in its new state, or None when it is there already."""
    if order.state is state:
        return None
    if state not in TRANSITIONS[order.state]:
        raise IllegalTransition(
            f"order {order.client_order_id} is {order.state}, which cannot become {state}"
        )
    _check_fits(order, state)
    return replace(
        order, state=state, version=order.version + 1, updated_at=max(now, order.updated_at)
    )


def _check_fits(order: Order, state: OrderState) -> None:
    """A state says something about the filled quantity: it must be true."""
    match state:
        case OrderState.FILLED | OrderState.PARTIALLY_FILLED:
            fits = ZERO < order.filled_qty < order.qty and state is OrderState.PARTIALLY_FILLED
        case OrderState.OPEN | OrderState.REJECTED:
            fits = order.filled_qty == ZERO
        case _:
            fits = True
    if not fits:
        raise IllegalTransition(
            f"order {order.client_order_id} cannot become {state} with {order.filled_qty} of "
            f"{order.qty} filled: report fills with update_fill"
        )


def filled(order: Order, qty: Decimal, average: Decimal, now: float) -> Order | None:
    """The order after a report of all that was filled so far, or None when that is no news: reports
    come late and out of order, and the largest is the truth."""
    if order.state is OrderState.REJECTED:
        raise IllegalTransition(
            f"order {order.client_order_id} was rejected: it cannot have been filled"
        )
    if qty > order.qty:
        raise OverFill(
            f"order {order.client_order_id} is for {order.qty}: {qty} cannot be filled of it"
        )
    if qty <= order.filled_qty:
        return None
    _check_average(order, qty, average)
    return replace(
        order,
        state=_state_after_fill(order, qty),
        filled_qty=qty,
        avg_fill_price=average,
        version=order.version + 1,
        updated_at=max(now, order.updated_at),
    )


def _state_after_fill(order: Order, qty: Decimal) -> OrderState:
    """A cancel that is under way stays under way; what was cancelled stays cancelled, and the late fill
    is still counted: it is money."""
    if order.state is OrderState.CANCELED:
        return OrderState.CANCELED
    if qty == order.qty:
        return OrderState.FILLED
    if order.state is OrderState.CANCEL_PENDING:
        return OrderState.CANCEL_PENDING
    return OrderState.PARTIALLY_FILLED


def _check_average(order: Order, qty: Decimal, average: Decimal) -> None:
    """What was added must have had a price: the sum that was paid only rises. Exchanges round averages, so
    it may seem to fall by up to a unit of their last place for all that was filled."""
    if order.avg_fill_price is None:
        return
    before = _exact.multiply(order.filled_qty, order.avg_fill_price)
    unit = min(_last_place(average), _last_place(order.avg_fill_price))
    if _exact.multiply(qty, _exact.add(average, unit)) <= before:
        raise InvalidOrder(
            f"order {order.client_order_id}: {qty} at {average} on average cost less than the "
            f"{order.filled_qty} at {order.avg_fill_price} before it; the average price is wrong"
        )


def _last_place(amount: Decimal) -> Decimal:
    """One unit of its last place."""
    exponent = amount.as_tuple().exponent
    return Decimal(1).scaleb(exponent if isinstance(exponent, int) else 0)
