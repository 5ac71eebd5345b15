"""The exchange with offline nodes: handshake, pull, push, and the conflicts that people settle."""
