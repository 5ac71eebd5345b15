"""The file that a remote worker keeps its token in.

An operator writes a join token into it. The worker that joins replaces it by the credential of its node, so
the next start is the same node and spends no join. Promises: the file is replaced as a whole, and only its
owner reads it.
"""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.client.address import check_token
from holdfast.errors import BadConfig


class TokenFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> str:
        """The token. BadConfig if the file cannot be read."""
        try:
            return check_token(self._path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise BadConfig(
                f"the token file '{self._path}' cannot be read: {error}; write a join token into it "
                "(`holdfast token create NAME --kind join`)"
            ) from None

    def keep(self, credential: str) -> None:
        """Replaces the token by the credential of the node."""
        fresh = self._path.with_name(self._path.name + ".new")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(credential + "\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
