"""The rows of the shop."""

from django.db import models


class Order(models.Model):
    name = models.CharField(max_length=50, unique=True)
    is_paid = models.BooleanField(default=False)
