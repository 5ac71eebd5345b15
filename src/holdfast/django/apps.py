"""The Django application of the outbox."""

from __future__ import annotations

from django.apps import AppConfig


class HoldfastConfig(AppConfig):
    name = "holdfast.django"
    label = "holdfast_django"
    verbose_name = "Holdfast"
    default_auto_field = "django.db.models.BigAutoField"
