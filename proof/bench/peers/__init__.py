"""Other people's queues, one adapter a file, each run in a virtual environment of its own."""
