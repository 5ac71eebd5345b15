"""Worker sync over gRPC, WebSocket and HTTP: one session, three transports."""
