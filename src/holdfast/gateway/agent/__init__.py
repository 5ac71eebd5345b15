"""Agents at a gateway: the routes of `/agent/v1`, and the WebSocket with the same messages."""
