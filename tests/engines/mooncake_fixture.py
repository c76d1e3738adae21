"""What the tests of the Mooncake shape share: where things are, and pools of real processes."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
import urllib.request
from typing import Any

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MOONPOOL_BUILD", REPOSITORY / "build/dev"))


def add_paths() -> None:
    """Puts moonpool, as it was built, and the package `mooncake` of this tree on the path.

    Ends the program with 77 where the native module was not built for this Python.
    """
    os.environ.setdefault("MOONPOOL_BIN", str(BUILD / "bin"))
    for folder in ("tests/harness", "client_sdk/python/mooncake_shape"):
        sys.path.insert(0, str(REPOSITORY / folder))
    sys.path.insert(0, str(BUILD / "python"))
    try:
        import moonpool  # noqa: F401
    except ImportError as error:
        skip(f"no moonpool ({error}); build the target moonpool_python")


def skip(why: str) -> None:
    """Ends the program: nothing can be tested here."""
    print(f"SKIPPED, NOTHING WAS TESTED: {why}", file=sys.stderr)
    sys.exit(77)


def new_pool(**options: Any) -> Any:
    """A pool.Pool of tests/harness."""
    from pool import Pool

    return Pool(**options)


def new_master(*arguments: str) -> Any:
    """A pool.Master, with flags of moonpool-master."""
    from pool import Master

    return Master(list(arguments))


def new_node(master: str, name: str, dram: str = "16MiB") -> Any:
    """A pool.Node. Its socket is this process's own: several tests may run at a time."""
    from pool import Node

    socket = pathlib.Path(tempfile.gettempdir(), f"moonpool-test-{os.getpid()}-{name}.sock")
    return Node(master, name, dram, ["--shm-path", str(socket)])


def wait_for_node(master: str) -> None:
    """Until a put finds a place: a node is used once its master knows what it holds."""
    import moonpool

    with moonpool.Client(master, timeout=30) as client:
        client.put("wait_for_node", b"")


def fetch(address: str, path: str) -> str:
    """Body of a page of the operations port."""
    with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as response:
        return response.read().decode()
