"""Two distributions with one import name in one environment are a trap: who finds it says so."""

from __future__ import annotations

import glob
import os
from importlib import metadata

# Of mooncake-transfer-engine and its builds for other hardware (-cuda13, -non-cuda, -npu, ...).
_ORIGINAL = "mooncake-transfer-engine"


def refuse_beside_the_original() -> None:
    """Raises ImportError when mooncake-transfer-engine is installed, too.

    Its files and ours would be in one folder, and which of them ran would depend on the order of
    installation. Where it was installed last its own ``__init__`` runs, and nobody asks this.
    """
    found = _installed_original() or _extension_beside_us()
    if found:
        raise ImportError(
            f"moonpool-mooncake and {found} both provide the package `mooncake`. Uninstall both, "
            "then install the one that you want: `pip install moonpool-mooncake` for a Moonpool.")


def _extension_beside_us() -> str:
    folder = os.path.dirname(os.path.abspath(__file__))
    return _ORIGINAL if glob.glob(os.path.join(folder, "store*.so")) else ""


def _installed_original() -> str:
    for distribution in metadata.distributions():
        name = (distribution.metadata["Name"] or "").lower().replace("_", "-")
        if name.startswith(_ORIGINAL):
            return name
    return ""
