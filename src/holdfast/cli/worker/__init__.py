"""`holdfast worker`: one process that runs tasks (`serve.py`), or many of them (`supervise.py`)."""
