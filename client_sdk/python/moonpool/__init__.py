"""Moonpool: a pool for KV cache.

::

    import moonpool

    with moonpool.Client("127.0.0.1:7400") as pool:
        pool.put("block-1", b"...")                  # True: stored; False: it was there
        data = pool.get("block-1")                   # bytes, verified
        n = pool.get_into("block-1", numpy_array)    # no copy in between; GIL released

A get returns exactly the bytes of one committed put, or raises ``Miss`` with the reason. ``Client``
is the manual; ``AsyncClient`` is the same for asyncio. Engines: ``moonpool.vllm``,
``moonpool.sglang``, ``moonpool.lmcache``.
"""

from moonpool._aio import AsyncClient
from moonpool._client import Client
from moonpool._errors import (
    Aborted,
    AlreadyExists,
    Cancelled,
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    InternalError,
    InvalidArgument,
    Miss,
    MoonpoolError,
    ResourceExhausted,
    Unavailable,
)
from moonpool._layout import fingerprint
from moonpool._native import CancelSource, HostBuffer, Memory, PrefixMatch, View

__all__ = [
    "Aborted", "AlreadyExists", "AsyncClient", "CancelSource", "Cancelled", "Client", "DataLoss",
    "DeadlineExceeded", "FailedPrecondition", "HostBuffer", "InternalError", "InvalidArgument",
    "Memory", "Miss", "MoonpoolError", "PrefixMatch", "ResourceExhausted", "Unavailable", "View",
    "fingerprint",
]
__version__ = "0.1.0"
