"""One store, measured when told: reads cases from standard input, answers each with a line of JSON.

    worker.py moonpool|mooncake|redis ADDRESS [PATH]
    > {"op": "get", "bytes": 1048576, "threads": 1, "batch": 32, "seconds": 0.5}
    < {"gigabytes_per_second": 4.2, "p50_us": 7800.0}

Every store runs the same loop: gets go in turn through a set of objects that no cache holds, into
one buffer per object of the batch; puts write fresh keys, which are removed again between the
measured stretches. What was read is compared with what was written, after the clock has stopped.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import threading
import time
from typing import Any

import numpy

READ_SET_BYTES = 64 << 20
PUT_SET_BYTES = 192 << 20


class Cases:
    """The loop, on any store."""

    def __init__(self, side: Any) -> None:
        self._side = side
        self._numbers = itertools.count()
        self._stored: dict[int, list[str]] = {}  # objects to read, by size
        self._buffers: dict[int, list[numpy.ndarray]] = {}  # by size

    def measure(self, op: str, size: int, threads: int, batch: int, seconds: float) -> dict:
        run = self._get if op == "get" else self._put
        return run(size, threads, batch, seconds)

    def _take_buffers(self, size: int, count: int) -> list[numpy.ndarray]:
        """`count` buffers that the store may move bytes in and out of; the same ones again."""
        kept = self._buffers.setdefault(size, [])
        if len(kept) < count:
            kept += self._side.buffers(size, count - len(kept))
        return kept[:count]

    def _objects(self, size: int, least: int) -> list[str]:
        keys = self._stored.setdefault(size, [])
        while len(keys) < max(READ_SET_BYTES // size, least):
            key = f"peer/{next(self._numbers)}"
            (value,) = self._take_buffers(size, 1)
            value[:] = _content(key, size)
            self._side.put([key], [value])
            keys.append(key)
        return keys

    def _get(self, size: int, threads: int, batch: int, seconds: float) -> dict:
        keys = self._objects(size, 2 * batch)
        buffers = self._take_buffers(size, threads * batch)
        last: list[list[str]] = [[] for _ in range(threads)]

        def lane(index: int, begin: float) -> list[float]:
            into = buffers[index * batch : (index + 1) * batch]
            times: list[float] = []
            at = index * len(keys) // threads
            while time.perf_counter() - begin < seconds:
                last[index] = [keys[(at + i) % len(keys)] for i in range(batch)]
                call = time.perf_counter()
                self._side.get(last[index], into)
                times.append(time.perf_counter() - call)
                at += batch
            return times

        result = _run(lane, threads, size * batch)
        for index, names in enumerate(last):
            for key, buffer in zip(names, buffers[index * batch :]):
                if not (buffer == _content(key, size)).all():
                    raise AssertionError(f"{key}: other bytes than were stored")
        return result

    def _put(self, size: int, threads: int, batch: int, seconds: float) -> dict:
        buffers = self._take_buffers(size, threads * batch)
        rounds = max(1, PUT_SET_BYTES // (size * batch * threads))
        parts, spent = [], 0.0
        while spent < seconds:
            names = [[[f"peer/{next(self._numbers)}" for _ in range(batch)] for _ in range(rounds)]
                     for _ in range(threads)]

            def lane(index: int, begin: float) -> list[float]:
                values = buffers[index * batch : (index + 1) * batch]
                times: list[float] = []
                for keys in names[index]:
                    if time.perf_counter() - begin > seconds - spent:
                        break
                    call = time.perf_counter()
                    self._side.put(keys, values)
                    times.append(time.perf_counter() - call)
                return times

            parts.append(_run(lane, threads, size * batch))
            spent += parts[-1]["seconds"]
            self._side.remove([key for lanes in names for keys in lanes for key in keys])
        moved = sum(part["bytes"] for part in parts)
        return {"bytes": moved, "seconds": spent, "gigabytes_per_second": moved / spent / 1e9,
                "p50_us": statistics.median(part["p50_us"] for part in parts)}


def _content(key: str, size: int) -> numpy.ndarray:
    """What an object of that key holds."""
    seed = int(key.rsplit("/", 1)[1])
    return (numpy.arange(size // 8, dtype=numpy.uint64) * 0x9E3779B97F4A7C15 + seed).view(
        numpy.uint8)


def _run(lane: Any, threads: int, call_bytes: int) -> dict:
    """Runs lane(index, begin) on that many threads at once."""
    times: list[list[float]] = [[] for _ in range(threads)]
    errors: list[BaseException] = []
    barrier = threading.Barrier(threads)

    def work(index: int) -> None:
        try:
            barrier.wait(60)
            times[index] = lane(index, begin)
        except BaseException as error:  # noqa: BLE001: told by the thread that started it
            errors.append(error)

    begin = time.perf_counter()
    others = [threading.Thread(target=work, args=(index,)) for index in range(1, threads)]
    for other in others:
        other.start()
    work(0)
    for other in others:
        other.join()
    seconds = time.perf_counter() - begin
    if errors:
        raise errors[0]
    calls = [one for some in times for one in some]
    moved = len(calls) * call_bytes
    return {"bytes": moved, "seconds": seconds, "gigabytes_per_second": moved / seconds / 1e9,
            "p50_us": statistics.median(calls) * 1e6 if calls else 0.0}


def main() -> int:
    name, arguments = sys.argv[1], sys.argv[2:]
    side = __import__(f"{name}_side").Side(*arguments)
    cases = Cases(side)
    print(json.dumps({"ready": name, "version": side.version}), flush=True)
    for line in sys.stdin:
        case = json.loads(line)
        result = cases.measure(case["op"], case["bytes"], case["threads"], case["batch"],
                               case["seconds"])
        print(json.dumps(result), flush=True)
    side.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
