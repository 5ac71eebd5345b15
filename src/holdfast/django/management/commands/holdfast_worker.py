"""`manage.py holdfast_worker`: runs the tasks of a project, with the options of `holdfast worker`."""

from __future__ import annotations

import sys
from typing import NoReturn

from django.core.management.base import BaseCommand

from holdfast.cli.main import main

TARGET = "holdfast.django.worker"


class Command(BaseCommand):
    help = "Run tasks: holdfast_worker [--backend ALIAS] [options of `holdfast worker`]"

    def run_from_argv(self, argv: list[str]) -> NoReturn:
        """The options are those of `holdfast worker`, so its own parser reads them."""
        options, alias = argv[2:], "queue"
        if options[:1] == ["--backend"] and len(options) > 1:
            alias, options = options[1], options[2:]
        sys.exit(main(["worker", f"{TARGET}:{alias}", *options]))
