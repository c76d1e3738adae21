"""The layout fingerprint of a namespace."""

from __future__ import annotations

import hashlib

# With the namespace's name at most 254 bytes go; longer texts keep a readable head and a hash.
_BYTES_MAX = 160


def fingerprint(**layout: object) -> str:
    """Canonical text of a layout, for ``Client(fingerprint=...)``.

    Whatever makes bytes of one engine wrong for another belongs into it::

        fingerprint(model="llama-3-8b", revision="main", dtype="bfloat16", page_tokens=64, tp=2)
        # 'dtype=bfloat16;model=llama-3-8b;page_tokens=64;revision=main;tp=2'

    The order of the arguments does not matter; None is left out. Characters that separate are
    escaped. A text over 160 bytes is cut and ends in the SHA-256 of the whole.
    """
    fields = [f"{name}={_escaped(value)}" for name, value in sorted(layout.items())
              if value is not None]
    text = ";".join(fields)
    if len(text) <= _BYTES_MAX:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    return f"{text[:_BYTES_MAX - 40]};sha256={digest}"


def _escaped(value: object) -> str:
    text = str(value).encode("unicode_escape").decode("ascii")
    return text.replace(";", "\\x3b").replace("=", "\\x3d")
