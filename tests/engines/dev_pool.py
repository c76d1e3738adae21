"""A pool of this machine's processes for tests of engines: a master and some nodes, as children.

    with DevPool(nodes=1, dram="256MiB") as pool:
        client = moonpool.Client(pool.master)
        pool.kill_node()                          # SIGKILL, by its pid; the master lives on

The programs are those of $MOONPOOL_BUILD (default: build/dev of this tree).
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from types import TracebackType

import moonpool

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MOONPOOL_BUILD", ROOT / "build" / "dev"))


class DevPool:
    """Starts on entry, and on exit stops what is left of it."""

    def __init__(self, *, nodes: int = 1, dram: str = "256MiB") -> None:
        self._count = nodes
        self._dram = dram
        self._master: subprocess.Popen[str] | None = None
        self._nodes: list[subprocess.Popen[str]] = []
        self.master = ""

    def __enter__(self) -> DevPool:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def kill_node(self) -> None:
        """Kills a storage node as a crash would; what it held is gone."""
        node = self._nodes.pop()
        node.kill()
        node.wait()

    def _start(self) -> None:
        free = "127.0.0.1:0"
        self._master, ready = _started(
            "moonpool-master", "--listen", free, "--http-listen", free)
        address = re.search(r"--master (\S+)", ready)
        assert address is not None, ready
        self.master = address[1]
        for index in range(self._count):
            node, _ = _started("moonpool-node", "--master", self.master, "--name",
                               f"node-{index}", "--dram", self._dram)
            self._nodes.append(node)
        with moonpool.Client(self.master) as client:  # waits until a node has registered
            client.put("ready", b"yes")

    def _stop(self) -> None:
        for process in [*self._nodes, *([self._master] if self._master else [])]:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _started(program: str, *arguments: str) -> tuple[subprocess.Popen[str], str]:
    """The process, and the line in which it says that it is ready and where."""
    process = subprocess.Popen([str(BUILD / "bin" / program), *arguments],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            if line.startswith("ready:"):
                return process, line
    raise RuntimeError(f"{program} {' '.join(arguments)} did not get ready")
