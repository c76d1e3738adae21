"""Addresses and names, judged as the pool judges them, before anything is asked of it.

An engine's adapter starts without a pool that answers, so nobody else would say at start that these
can never work. Private to this package.
"""

from __future__ import annotations

import re

HOST_PORT_EXAMPLE = 'such as "127.0.0.1:7400"'
NAMESPACE_CHARACTERS = "letters, digits and any of . _ / - : @ +"

_HOST_PORT = re.compile(r".+:([0-9]{1,5})")
_NAMESPACE = re.compile(r"[A-Za-z0-9._/:@+-]+")


def is_host_port(text: str) -> bool:
    """Whether it names a host, or an address, and a port from 1 to 65535."""
    found = _HOST_PORT.fullmatch(text)
    return found is not None and 1 <= int(found[1]) <= 65535


def is_namespace(text: str, bytes_max: int = 255) -> bool:
    """Whether it can be a namespace's name (common/names.h), of so many bytes at most."""
    return len(text) <= bytes_max and _NAMESPACE.fullmatch(text) is not None
