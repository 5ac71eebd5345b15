"""What the execution loop asks of an exchange, and a simulated one."""
