"""The rules for one order: pure functions of the order and a report about it.

Promises: an order changes only along `TRANSITIONS`. The filled quantity never decreases and never exceeds
the ordered one. State and filled quantity agree. Never: I/O, clocks; `now` is an argument.
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
    """The id of an order, here and at the exchange: 35 characters that exchanges accept. The same parts
    give the same id in every process."""
    text = "\x00".join((namespace, *parts))
    return "hf-" + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def check_id(name: object) -> str:
    """Checks the id of an imported order. Generated ids always fit."""
    if not isinstance(name, str) or NAME.fullmatch(name) is None or TAKEN.match(name):
        raise InvalidOrder(
            f"client_order_id is {shown(name)}: use up to 64 letters, digits and ._:/- (not 'open', 'meta', "
            "'events', 'keys' or 'by_symbol:…', which name indexes)"
        )
    return name


def check_reference(client_order_id: object) -> str:
    """Checks an id for a lookup: text that every store can compare."""
    return check_name("client_order_id", client_order_id, wrong=InvalidOrder)


def check_count(field: str, value: object) -> int | None:
    """Checks a version or an epoch, if one is given."""
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
    """Checks a reason that a caller gives."""
    return check_text("the reason", reason, most=REASON_MAX, wrong=InvalidOrder)


def clean_reason(text: object) -> str:
    """Turns text from outside into a valid reason: a bad character must not stop a freeze."""
    try:
        words = str(text)
    except Exception:  # an error whose text cannot be read is still a reason
        words = f"a {type(text).__name__}"
    return printable(words, "\N{REPLACEMENT CHARACTER}")[:REASON_MAX]


def is_unheard(order: Order) -> bool:
    """Whether the exchange has never reported the order. An accepted order has at least version 2, and an
    accepted order with a cancel request at least version 3."""
    if order.filled_qty:
        return False
    wanted_gone = order.state is OrderState.CANCEL_PENDING and order.version == 2
    return order.state is OrderState.PENDING or wanted_gone


def check_version(order: Order, expected: int | None) -> None:
    if expected is not None and order.version != expected:
        raise VersionConflict(
            f"order {order.client_order_id} is at version {order.version}, not {expected}: "
            "read it again and decide again"
        )


def check_consistent(order: Order) -> None:
    """Raises InvalidOrder unless the fields of the order agree with each other."""
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
    """The fixed fields of an order: the fingerprint of its request."""
    return order.symbol, order.side, order.qty, order.price


def as_placed(order: Order) -> Order:
    """The order as it was when it was placed: the answer to the first caller."""
    return replace(
        order,
        state=OrderState.PENDING,
        filled_qty=ZERO,
        avg_fill_price=None,
        version=1,
        updated_at=order.created_at,
    )


def moved(order: Order, state: OrderState, now: float) -> Order | None:
    """The order in its new state; None when it is in that state already."""
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
    """Raises unless the new state agrees with the filled quantity."""
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
    """The order after a report of the total filled quantity; None when the report is not news. Reports
    arrive late and out of order; the largest is right."""
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
    """A cancel in progress stays in progress. A cancelled order stays cancelled, but its late fill
    counts: it is money."""
    if order.state is OrderState.CANCELED:
        return OrderState.CANCELED
    if qty == order.qty:
        return OrderState.FILLED
    if order.state is OrderState.CANCEL_PENDING:
        return OrderState.CANCEL_PENDING
    return OrderState.PARTIALLY_FILLED


def _check_average(order: Order, qty: Decimal, average: Decimal) -> None:
    """The added quantity must have had a positive price, so the total paid only increases. Exchanges
    round averages, so it may seem to decrease by up to one unit of the last place, times the filled
    quantity."""
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
    """One unit of its last decimal place."""
    exponent = amount.as_tuple().exponent
    return Decimal(1).scaleb(exponent if isinstance(exponent, int) else 0)
