"""What Python costs over C++, for the same reads from the same pool, in turns.

    PYTHONPATH=build/release/python python_overhead.py BUILD_DIR [ROUNDS]

Bars: get_into_many of 32 x 1 MiB into numpy at least 0.9 of C++'s rate; a 4 KiB get less than 2 x
C++'s time. Compared are medians over the rounds, so that a disturbance hits both alike. The figures
are the last line, as JSON.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

BUILD = pathlib.Path(sys.argv[1]).resolve()
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 40
os.environ.setdefault("MOONPOOL_BIN", str(BUILD / "bin"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))

import moonpool  # noqa: E402
import numpy  # noqa: E402
from pool import Pool, program  # noqa: E402

COUNT, MIB, SMALL, TIMES = 32, 1 << 20, 4096, 2000


class Peer:
    """The C++ program that does the same."""

    def __init__(self, master: str, namespace: str) -> None:
        self.process = subprocess.Popen([program("sdk-peer"), master, namespace], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def seconds(self, round_of: str) -> float:
        self.process.stdin.write(round_of + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())["seconds"]

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def timed(call) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def repeat(call, times: int) -> None:
    for _ in range(times):
        call()


def main() -> int:
    with Pool(nodes=1, dram="256MiB") as pool:
        client = moonpool.Client(pool.master, namespace="overhead", fingerprint="bench")
        data = numpy.random.default_rng(1).integers(0, 256, (COUNT, MIB), numpy.uint8)
        keys = [f"many-{i}" for i in range(COUNT)]
        assert all(result is True for result in client.put_many(keys, list(data)))
        client.put("one", data[0][:SMALL])
        into, small = numpy.empty_like(data), numpy.empty(SMALL, numpy.uint8)
        targets = list(into)
        python = {
            f"many {COUNT} {MIB}": lambda: client.get_into_many(keys, targets),
            f"one {SMALL} {TIMES}": lambda: repeat(lambda: client.get("one"), TIMES),
            f"into {SMALL} {TIMES}": lambda: repeat(lambda: client.get_into("one", small), TIMES),
        }
        peer = Peer(pool.master, "overhead")
        seconds = {name: ([], []) for name in python}
        for number in range(ROUNDS + 2):
            for name, call in python.items():
                # Who goes first alternates, too. The first rounds only learn locations.
                order = (0, 1) if number % 2 else (1, 0)
                for who in order:
                    took = timed(call) if who == 0 else peer.seconds(name)
                    if number >= 2:
                        seconds[name][who].append(took)
        peer.close()
        assert (into == data).all() and (small == data[0][:SMALL]).all()
        client.close()
    many, one, in_place = ([statistics.median(s) for s in pair] for pair in seconds.values())
    result = {
        "scenario": "python_overhead",
        "rounds": ROUNDS,
        "get_many_32x1MiB": {"python_GBps": round(COUNT * MIB / many[0] / 1e9, 2),
                             "cpp_GBps": round(COUNT * MIB / many[1] / 1e9, 2),
                             "ratio": round(many[1] / many[0], 3), "bar": 0.9},
        "get_4KiB": {"python_us": round(one[0] / TIMES * 1e6, 2),
                     "cpp_us": round(one[1] / TIMES * 1e6, 2),
                     "ratio": round(one[0] / one[1], 2), "bar": 2.0},
        "get_into_4KiB": {"python_us": round(in_place[0] / TIMES * 1e6, 2),
                          "cpp_us": round(in_place[1] / TIMES * 1e6, 2),
                          "ratio": round(in_place[0] / in_place[1], 2)},
    }
    result["ok"] = (result["get_many_32x1MiB"]["ratio"] >= 0.9
                    and result["get_4KiB"]["ratio"] < 2.0)
    print(json.dumps(result))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
