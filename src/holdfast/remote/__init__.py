"""Workers and producers without a database: the engine's parts over a connection to a gateway.
An internal package: applications import `holdfast.TaskQueue`."""
