"""`python -m holdfast`: the command line without an installed script."""

from __future__ import annotations

from holdfast.cli.main import main

raise SystemExit(main())
