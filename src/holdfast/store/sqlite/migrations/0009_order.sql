-- Orders. Money is text: exact decimal numbers in their shortest form. Times are epoch seconds of the store's clock.

-- The number is the order of placement.
CREATE TABLE holdfast_order (
    number          integer PRIMARY KEY AUTOINCREMENT,
    client_order_id text NOT NULL,
    symbol          text NOT NULL,
    side            text NOT NULL CHECK (side IN ('BUY', 'SELL')),
    qty             text NOT NULL,
    price           text NOT NULL,
    state           text NOT NULL CHECK (state IN (
                        'PENDING', 'OPEN', 'PARTIALLY_FILLED', 'CANCEL_PENDING', 'FILLED', 'CANCELED', 'REJECTED')),
    filled_qty      text NOT NULL,
    avg_fill_price  text,
    version         integer NOT NULL,
    epoch           integer NOT NULL,
    created_at      real NOT NULL,
    updated_at      real NOT NULL,
    idem_key        text
) STRICT;
CREATE UNIQUE INDEX holdfast_order_name ON holdfast_order (client_order_id);
-- Open orders.
CREATE INDEX holdfast_order_open ON holdfast_order (number)
    WHERE state IN ('PENDING', 'OPEN', 'PARTIALLY_FILLED', 'CANCEL_PENDING');
CREATE INDEX holdfast_order_symbol ON holdfast_order (symbol, number);

-- Answers to requests with a key. A placement needs no row here: its order is the answer.
CREATE TABLE holdfast_order_answer (
    operation text NOT NULL,
    key       text NOT NULL,
    request   text NOT NULL,
    ids_json  text NOT NULL,
    changed   integer NOT NULL CHECK (changed IN (0, 1)),
    at        real NOT NULL,
    PRIMARY KEY (operation, key)
) STRICT;
CREATE INDEX holdfast_order_answer_at ON holdfast_order_answer (at);

CREATE TABLE holdfast_order_freeze (
    one    integer PRIMARY KEY CHECK (one = 1),
    epoch  integer NOT NULL,
    frozen integer NOT NULL CHECK (frozen IN (0, 1)),
    reason text NOT NULL,
    at     real NOT NULL
) STRICT;
INSERT INTO holdfast_order_freeze (one, epoch, frozen, reason, at) VALUES (1, 0, 0, '', 0);
