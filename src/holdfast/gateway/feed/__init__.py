"""The live feed: one reader of the store for all subscribers of a gateway, by WebSocket, SSE and long
poll."""
