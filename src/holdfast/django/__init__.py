"""Django: a backend for `django.tasks` (Django 6, or the package django-tasks before it).

    INSTALLED_APPS = [..., "holdfast.django"]
    TASKS = {"default": {"BACKEND": "holdfast.django.backend.HoldfastBackend", "OPTIONS": {"url": "..."}}}

Promises: a task that is enqueued in a transaction of Django commits or rolls back with it, on every database
that Django supports (`outbox.py`). Workers: `manage.py holdfast_worker`, or `holdfast worker
holdfast.django.worker:queue`. Never: opens the SQLite file of Django. Its other modules are internal. Needs
the extra: pip install 'holdfast[django]'.
"""
