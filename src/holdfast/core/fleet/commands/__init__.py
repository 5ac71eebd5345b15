"""Commands: command types, secrets by reference, retries."""
