"""The port to an exchange, and a simulated exchange."""
