"""The store is a file in a temporary folder. It is chosen before the application is imported."""

import os
import tempfile

FOLDER = tempfile.TemporaryDirectory()
os.environ["HOLDFAST_URL"] = f"sqlite:///{FOLDER.name}/crawl.db"
