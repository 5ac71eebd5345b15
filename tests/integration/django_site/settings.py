"""A Django project on the database and the store of the environment."""

import importlib.util
import os
from urllib.parse import unquote, urlsplit

HAS_TASKS = importlib.util.find_spec("django.tasks") is not None
DATABASE = urlsplit(os.environ["SITE_DATABASE"])
SECRET_KEY = "only for tests"
USE_TZ = True
INSTALLED_APPS = ["shop", "holdfast.django", *([] if HAS_TASKS else ["django_tasks"])]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
if DATABASE.scheme.startswith("postgres"):
    options = dict(part.split("=", 1) for part in DATABASE.query.split("&") if "=" in part)
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": DATABASE.path.lstrip("/"),
            "USER": unquote(DATABASE.username or ""),
            "PASSWORD": unquote(DATABASE.password or ""),
            "HOST": unquote(DATABASE.hostname or options.get("host", "")),
            "PORT": str(DATABASE.port or ""),
        }
    }
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": DATABASE.path[1:],
            "OPTIONS": {"timeout": 20},
        }
    }
TASKS = {
    "default": {
        "BACKEND": "holdfast.django.backend.HoldfastBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {
            "url": os.environ["SITE_STORE"],
            "default_max_attempts": 2,
            "base_retry_delay": 0.01,
        },
    }
}
