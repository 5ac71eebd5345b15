"""The client of a gateway: `Client` for asyncio, `BlockingClient` for everything else.

It needs no database: `pip install 'holdfast[client]'`. Its calls are those of the REST API; its errors are
those of `holdfast.errors`.
"""
