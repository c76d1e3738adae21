"""``mooncake.store`` in front of a Moonpool: code that was written for it runs unmodified.

Only the store: the transfer engine (``mooncake.engine``) is not here. Not to be installed beside
mooncake-transfer-engine, which owns these names; importing says so where it finds both.
"""

from __future__ import annotations

from mooncake._conflict import refuse_beside_the_original

refuse_beside_the_original()

__version__ = "0.1.0"
