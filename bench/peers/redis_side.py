"""Redis over TCP, by its wire format: values are received straight into the buffers, batches are
pipelined. Its Python clients copy each value once more."""

from __future__ import annotations

import socket
import threading

import numpy


class Side:
    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._address = (host, int(port))
        self._lanes = threading.local()  # a connection per thread
        self.version = self._info_version()

    def _info_version(self) -> str:
        lane = self._lane()
        lane.send([_command(b"INFO", b"server")])
        text = lane.bulk(None).decode()
        return next(line.split(":")[1] for line in text.splitlines()
                    if line.startswith("redis_version"))

    def _lane(self) -> _Lane:
        if not hasattr(self._lanes, "lane"):
            self._lanes.lane = _Lane(socket.create_connection(self._address))
        return self._lanes.lane

    def buffers(self, size: int, count: int) -> list[numpy.ndarray]:
        return list(numpy.ones((count, size), numpy.uint8))

    def put(self, keys: list[str], values: list[numpy.ndarray]) -> None:
        lane = self._lane()
        for key, value in zip(keys, values):
            head = b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n" % (
                len(key), key.encode(), value.nbytes)
            lane.send([head, memoryview(value), b"\r\n"])
        for _ in keys:
            lane.expect(b"+OK")

    def get(self, keys: list[str], into: list[numpy.ndarray]) -> None:
        lane = self._lane()
        lane.send([_command(b"GET", key.encode()) for key in keys])
        for buffer in into:
            lane.bulk(memoryview(buffer))

    def remove(self, keys: list[str]) -> None:
        lane = self._lane()
        for at in range(0, len(keys), 1000):
            lane.send([_command(b"DEL", *(key.encode() for key in keys[at : at + 1000]))])
            lane.line()

    def close(self) -> None:
        pass


class _Lane:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connection
        self._input = bytearray()

    def send(self, pieces: list) -> None:
        views = [memoryview(piece).cast("B") for piece in pieces]
        while views:
            sent = self._socket.sendmsg(views[:64])
            while views and sent >= len(views[0]):
                sent -= len(views.pop(0))
            if views:
                views[0] = views[0][sent:]

    def line(self) -> bytes:
        while (end := self._input.find(b"\r\n")) < 0:
            self._input += self._receive(64)
        line = bytes(self._input[:end])
        del self._input[: end + 2]
        if line.startswith(b"-"):
            raise RuntimeError(f"redis: {line.decode()}")
        return line

    def expect(self, answer: bytes) -> None:
        if (line := self.line()) != answer:
            raise RuntimeError(f"redis: {line.decode()}")

    def bulk(self, into: memoryview | None) -> bytes:
        """The value that comes next, into `into` or, where that is None, returned."""
        size = int(self.line()[1:])
        if size < 0:
            raise RuntimeError("redis: no such key")
        target = into if into is not None else memoryview(bytearray(size))
        if size != len(target):
            raise RuntimeError(f"redis: {size} bytes instead of {len(target)}")
        have = min(size, len(self._input))
        target[:have] = self._input[:have]
        del self._input[:have]
        while have < size:
            got = self._socket.recv_into(target[have:])
            if got == 0:
                raise RuntimeError("redis: the connection was closed")
            have += got
        while len(self._input) < 2:
            self._input += self._receive(2)
        del self._input[:2]
        return b"" if into is not None else bytes(target)

    def _receive(self, most: int) -> bytes:
        got = self._socket.recv(most)
        if not got:
            raise RuntimeError("redis: the connection was closed")
        return got


def _command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)
