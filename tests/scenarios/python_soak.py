"""Many put/get cycles in one process: resident memory must stay flat, and every byte be right.

    PYTHONPATH=build/release/python python_soak.py BUILD_DIR [CYCLES]

A cycle puts an object, reads it in every form (bytes, into a buffer, a view), looks for it and
removes it; a tenth fail on purpose. Bar: after the first tenth resident memory grows by less than
8 MiB. The figures are the last line, as JSON.
"""

import json
import os
import pathlib
import sys
import time

BUILD = pathlib.Path(sys.argv[1]).resolve()
CYCLES = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
os.environ.setdefault("MOONPOOL_BIN", str(BUILD / "bin"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))

import moonpool  # noqa: E402
from pool import Pool  # noqa: E402

BATCH, BYTES, GROWTH_MAX = 64, 4096, 8 << 20


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cycle(client: moonpool.Client, number: int, into: list[bytearray]) -> int:
    """One batch; returns how many reads were wrong."""
    keys = [f"{number}-{i}" for i in range(BATCH)]
    values = [bytes([(number + i) % 256]) * BYTES for i in range(BATCH)]
    wrong = sum(result is not True for result in client.put_many(keys, values))
    wrong += sum(read != BYTES for read in client.get_into_many(keys, into))
    wrong += sum(a != b for a, b in zip(into, values))
    wrong += sum(a != b for a, b in zip(client.get_many(keys), values))
    for view, value in zip(client.get_view_many(keys), values):
        with view:
            wrong += b"".join(view.pieces) != value
    failed = client.get_many([f"absent-{i}" for i in range(BATCH // 10)])
    wrong += sum(not isinstance(result, moonpool.Miss) for result in failed)
    try:
        client.get_into(keys[0], into[0], timeout=-1)
    except moonpool.InvalidArgument:
        pass
    wrong += client.match_prefix(keys).matched != BATCH
    wrong += sum(result is not True for result in client.remove_many(keys))
    return wrong


def main() -> int:
    batches = max(10, CYCLES // BATCH)
    with Pool(nodes=1, dram="256MiB") as pool:
        client = moonpool.Client(pool.master, namespace="soak", fingerprint="soak")
        into = [bytearray(BYTES) for _ in range(BATCH)]
        wrong, begin, before = 0, time.monotonic(), 0
        for number in range(batches):
            wrong += cycle(client, number, into)
            if number == batches // 10:
                before = resident()
            if number % (batches // 10 + 1) == 0:
                print(f"{number * BATCH} cycles, {resident() >> 20} MiB", file=sys.stderr)
        growth = resident() - before
        seconds = time.monotonic() - begin
        client.close()
    ok = wrong == 0 and growth < GROWTH_MAX
    print(json.dumps({"scenario": "python_soak", "cycles": batches * BATCH, "wrong": wrong,
                      "seconds": round(seconds, 1), "resident_MiB": before >> 20,
                      "growth_KiB": growth >> 10, "bar_KiB": GROWTH_MAX >> 10, "ok": ok}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
