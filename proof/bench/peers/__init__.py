"""Other queues, one adapter per file, each run in its own virtual environment."""
