"""Orders that survive: a durable order store, and what is built on it.

Import from the modules: `holdfast.orders.order` (Order, Side, OrderState), `holdfast.orders.store` (the
interface), `holdfast.orders.memory`, `holdfast.orders.durable`, `holdfast.orders.sql`,
`holdfast.orders.sql_blocking`; above them `holdfast.orders.loop` (ExecutionLoop), `holdfast.orders.risk`,
`holdfast.orders.exchange` (the interface) and `holdfast.orders.simulated`.
"""
