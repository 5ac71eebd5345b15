"""Redaction: secrets are hidden before a text leaves the process or is kept for display.

Promises: a value under the name of a secret, a token of this product, a bearer credential and the password of
a URL are replaced by `***`. When in doubt it hides too much. Redaction twice is redaction once.
Never: changes the bodies that a program asked for (payload and result of one task, bytes of output).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from holdfast.core.token import HIDDEN, redact
from holdfast.errors import BadConfig

FIELDS: Final = (
    "password", "passwd", "passphrase", "pwd", "secret", "token", "api_key", "private_key", "access_key",
    "secret_key", "credential", "credentials", "authorization", "cookie",
)  # fmt: skip
"""Names of secrets. A name counts with any prefix (`db_password`), without regard to case, `-` and `_`."""
PATTERN_CHARS_MAX: Final = 500
_URL: Final = re.compile(
    r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s/?#@:'\"]*):[^\s'\"@]+(?:@[^\s'\"@/]+)*@", re.IGNORECASE
)
_BEARER: Final = re.compile(r"\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{12,}", re.IGNORECASE)
_SEPARATORS: Final = re.compile(r"[-_.\s]")
_NAME: Final = re.compile(r"[\w.-]{0,80}")
"""A text without any sign that the rules for URLs, credentials and fields need: most texts of events."""
_TOKEN_ID: Final = re.compile(r"tok_[0-9a-f-]{32,36}")
"""The id of a token of this product, which events have under the name `token`. It opens nothing."""
_PLAIN: Final = re.compile(r"[a-z0-9]+")


class Redaction:
    """The rules of one process. `secrets`: texts that are hidden wherever they stand."""

    def __init__(
        self,
        fields: Iterable[str] = (),
        patterns: Iterable[str] = (),
        secrets: Iterable[str] = (),
    ) -> None:
        """BadConfig for a name without a letter and for a pattern that is no regular expression."""
        names = {_folded(name) for name in (*FIELDS, *fields)}
        if not all(map(_PLAIN.fullmatch, names)):
            raise BadConfig("redact_fields has a name without a letter or digit of ASCII")
        self._names = tuple(sorted(names))
        self._patterns = tuple(map(_compiled, patterns))
        self._secrets = tuple(secret for secret in secrets if secret)
        # The folded name with separators between any two characters: what stands in a text.
        words = "|".join("[-_.]?".join(name) for name in sorted(names, key=len, reverse=True))
        self._assigned = re.compile(
            rf"((?:{words})\s*=\s*)(?:\"[^\"]*\"?|'[^']*'?|[^\s,;&'\")]{{4,}})", re.IGNORECASE
        )
        self._member = re.compile(
            rf"((?:{words})[\"']\s*:\s*)"
            r"(?:\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|[\[{].*|[^,}\]\[{\"'\s]+)",
            re.IGNORECASE | re.DOTALL,
        )

    def is_secret(self, name: str) -> bool:
        """Whether the value of a field with this name is hidden."""
        return _folded(name).endswith(self._names)

    def text(self, text: str) -> str:
        """The text without secrets. JSON may be cut off at its end."""
        if not self._patterns and _NAME.fullmatch(text) is not None:
            return redact(text, self._secrets)
        text = redact(text, self._secrets)
        text = _BEARER.sub(rf"\1\2{HIDDEN}", text)
        text = _URL.sub(rf"\1:{HIDDEN}@", text)
        text = self._assigned.sub(rf"\1{HIDDEN}", text)
        text = self._member.sub(rf'\1"{HIDDEN}"', text)
        for pattern in self._patterns:
            text = pattern.sub(HIDDEN, text)
        return text

    def value(self, value: Any) -> Any:
        """A value of JSON without secrets: fields by their names, texts by what stands in them."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return {
                    name: HIDDEN if self._hides(name, part) else self.value(part)
                    for name, part in value.items()
                }
            case list() | tuple():
                return [self.value(part) for part in value]
            case msgspec.Raw():
                return self.value(msgspec.json.decode(value))
            case _:
                return value

    def _hides(self, name: object, part: object) -> bool:
        has_content = part is not None and not isinstance(part, bool)
        if isinstance(part, str) and _TOKEN_ID.fullmatch(part) is not None:
            return False
        return has_content and isinstance(name, str) and self.is_secret(name)


def _folded(name: str) -> str:
    return _SEPARATORS.sub("", name.lower())


def _compiled(pattern: str) -> re.Pattern[str]:
    if len(pattern) > PATTERN_CHARS_MAX:
        raise BadConfig(
            f"a pattern of redact_patterns has more than {PATTERN_CHARS_MAX} characters"
        )
    try:
        return re.compile(pattern)
    except re.error as error:
        raise BadConfig(f"redact_patterns has no regular expression: {error}") from None


DEFAULT: Final = Redaction()
"""The rules without settings: for errors of handlers and for logs."""
