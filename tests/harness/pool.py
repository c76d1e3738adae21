"""A pool of real processes for tests in Python.

The programs come from MOONPOOL_BIN (default: build/dev/bin of this tree)::

    with Pool(nodes=2, dram="128MiB") as pool:
        client = moonpool.Client(pool.master)
"""

from __future__ import annotations

import os
import pathlib
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time

READY_SECONDS = 60.0
STOP_SECONDS = 30.0
ROOT = pathlib.Path(__file__).resolve().parents[2]


def program(name: str) -> str:
    """Path of one of our programs; FileNotFoundError says how to build it."""
    folder = pathlib.Path(os.environ.get("MOONPOOL_BIN", ROOT / "build/dev/bin"))
    path = folder / name
    if not path.exists():
        raise FileNotFoundError(f"no {path}: make dev, or name the folder in MOONPOOL_BIN")
    return str(path)


class Daemon:
    """One process that says when it is ready. `stop()` interrupts, `kill()` is SIGKILL."""

    def __init__(self, arguments: list[str], ready: str) -> None:
        """Starts; `match` holds what `ready`, a regular expression, found on standard output.

        Raises RuntimeError, with what it wrote to standard error, when it does not become ready.
        """
        self._log = tempfile.TemporaryFile("w+")
        # What is loaded into Python before it starts (a sanitizer's runtime) is not for programs.
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=self._log,
                                        text=True, env=environment)
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.match = self._wait_for(ready)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _wait_for(self, ready: str) -> re.Match[str]:
        deadline = time.monotonic() + READY_SECONDS
        try:
            while True:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
                if line is None:
                    break
                if found := re.search(ready, line):
                    return found
        except queue.Empty:
            pass
        self.kill()
        raise RuntimeError(f"{self.process.args} did not become ready: {self.log()}")

    def log(self) -> str:
        """What it wrote to standard error."""
        self._log.seek(0)
        return self._log.read()

    def stop(self) -> int:
        """Interrupts it and returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(STOP_SECONDS)


class Pool:
    """`moonpool dev`: a master and nodes on loopback, all gone at the end.

    It ends as a whole when one of its processes does: tests that kill take Master and Node.
    """

    def __init__(self, nodes: int = 1, dram: str = "256MiB", arguments: list[str] = ()) -> None:
        self._daemon = Daemon([program("moonpool"), "dev", "--nodes", str(nodes), "--dram", dram,
                               *arguments], r"^ready: --master (\S+)")
        self.master: str = self._daemon.match[1]

    @property
    def process(self) -> subprocess.Popen:
        return self._daemon.process

    def log(self) -> str:
        return self._daemon.log()

    def close(self) -> None:
        self._daemon.stop()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Master(Daemon):
    """A master of its own, for tests that kill nodes one by one. `address` is host:port."""

    def __init__(self, arguments: list[str] = ()) -> None:
        super().__init__([program("moonpool-master"), "--listen", "127.0.0.1:0", "--http-listen",
                          "127.0.0.1:0", *arguments], r"^ready: --master (\S+) --http (\S+)")
        self.address: str = self.match[1]
        self.http: str = self.match[2]

    def __enter__(self) -> Master:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


class Node(Daemon):
    """A storage node of `master`. Its socket is its own: names may be those of another pool, too."""

    def __init__(self, master: str, name: str, dram: str = "256MiB",
                 arguments: list[str] = ()) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="moonpool-")
        super().__init__([program("moonpool-node"), "--master", master, "--name", name, "--dram",
                          dram, "--http-listen", "127.0.0.1:0", "--shm-path",
                          f"{self._folder.name}/socket", *arguments], r"^ready: ")

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
