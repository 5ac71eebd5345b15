"""The table of tasks that were enqueued in a transaction of Django and are not in the store yet."""

from __future__ import annotations

from django.db import models


class OutboxEntry(models.Model):
    """A task to enqueue. It is deleted when the store has the task."""

    task_id = models.CharField(max_length=64, unique=True)
    backend = models.CharField(max_length=200)
    request_json = models.TextField()
    """The arguments of `TaskQueue.enqueue`."""
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        app_label = "holdfast_django"
        db_table = "holdfast_django_outbox"
