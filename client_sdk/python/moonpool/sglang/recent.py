"""The newest keys that a rank has stored or found: what `clear` can remove."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable


class RecentKeys:
    """At most `keys_max`, the newest. Thread-safe."""

    def __init__(self, keys_max: int = 65536) -> None:
        self._keys_max = keys_max
        self._lock = threading.Lock()
        self._keys: OrderedDict[str, None] = OrderedDict()

    def add(self, keys: Iterable[str]) -> None:
        with self._lock:
            for key in keys:
                self._keys[key] = None
                self._keys.move_to_end(key)
            while len(self._keys) > self._keys_max:
                self._keys.popitem(last=False)

    def take(self) -> list[str]:
        """All of them, which are forgotten."""
        with self._lock:
            keys = list(self._keys)
            self._keys.clear()
            return keys
