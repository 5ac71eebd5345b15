"""`holdfast worker`: one process that runs tasks (`serve.py`), or several under a parent (`supervise.py`)."""
