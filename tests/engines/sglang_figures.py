#!/usr/bin/env python3
"""How fast SGLang's pages go to a local pool and back, beside SGLang's own file back end.

    .../sglang/bin/python tests/engines/sglang_figures.py [--pages N] [--rounds N]

Both are called as SGLang's cache controller calls them: moonpool.sglang without a copy
(`batch_set_v1`, `batch_get_v1`), over shared memory and over TCP; the file back end page by page
through a tensor each (`_generic_page_set`, `_generic_page_get`), on a folder in memory, which no
disk is faster than. The pool is full and evicts, as pools do that have run for a while. Every page that comes back is compared. The last line is JSON; bytes per second
are medians of the rounds. Exit 0 when all pages came back right and the bars hold, else 1; 77 without
SGLang.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

import sglang_fixture as fixture

fixture.require_engine()

import torch  # noqa: E402
from moonpool.sglang import MoonpoolHiCacheStorage  # noqa: E402
from pool import Pool  # noqa: E402
from sglang.srt.mem_cache.hicache_storage import HiCacheFile  # noqa: E402

LAYERS, HEADS, HEAD_DIM, PAGE_TOKENS = 32, 8, 128, 64  # of an 8B model: 8 MiB a page

POOL_ROUNDS, WARM_ROUNDS = 3, 4  # how much the pool holds; what fills it before it is measured

# Times the file back end's rate, at least.
BARS = {"shm_store_times_file": 1, "shm_fetch_times_file": 2, "tcp_store_times_file": 1,
        "tcp_fetch_times_file": 1}


def host_pool(pages: int):
    return fixture.mha_pool(
        "page_first", heads=HEADS, head_dim=HEAD_DIM, layers=LAYERS, page=PAGE_TOKENS,
        tokens=pages * PAGE_TOKENS,
    )


class ZeroCopy:
    """moonpool.sglang, as the controller's zero-copy functions call it."""

    def __init__(self, host, master: str, path: str) -> None:
        extra = {"path": path, "tag": path, "attach_timeout": 30.0, "hold": 0}
        self.storage = MoonpoolHiCacheStorage(fixture.config(master, extra=extra))
        self.storage.register_mem_pool_host(host)

    def store(self, keys: list[str], indices: torch.Tensor) -> int:
        return sum(self.storage.batch_set_v1(keys, indices))

    def find(self, keys: list[str]) -> int:
        return self.storage.batch_exists(keys)

    def fetch(self, keys: list[str], indices: torch.Tensor) -> int:
        return sum(self.storage.batch_get_v1(keys, indices))


class Files:
    """SGLang's file back end, as the controller's generic functions call it."""

    def __init__(self, host, folder: str) -> None:
        self.host = host
        self.storage = HiCacheFile(fixture.config(extra={"file_storage_path": folder}))

    def store(self, keys: list[str], indices: torch.Tensor) -> int:
        starts = indices[:: self.host.page_size]
        values = [self.host.get_data_page(start) for start in starts]
        return len(keys) if self.storage.batch_set(keys, values) else 0

    def find(self, keys: list[str]) -> int:
        return self.storage.batch_exists(keys)

    def fetch(self, keys: list[str], indices: torch.Tensor) -> int:
        targets = [self.host.get_dummy_flat_data_page() for _ in keys]
        found = self.storage.batch_get(keys, targets)
        for start, value in zip(indices[:: self.host.page_size], found):
            if value is not None:
                self.host.set_from_flat_data_page(start, value)
        return sum(value is not None for value in found)


def timed(call: Callable[[], int]) -> tuple[int, float]:
    began = time.perf_counter()
    result = call()
    return result, time.perf_counter() - began


def measure(name: str, backend, host, pages: int, rounds: int) -> dict[str, float]:
    """Pages stored, found, fetched and wrong over all rounds; median bytes per second."""
    nbytes = pages * PAGE_TOKENS * host.get_size_per_token()
    source, target = (host.alloc(pages * PAGE_TOKENS) for _ in range(2))
    totals = {"stored": 0, "found": 0, "fetched": 0, "wrong": 0}
    puts, gets, queries = [], [], []
    for number in range(-WARM_ROUNDS, rounds):
        keys = fixture.hashes(pages, f"{name}-{number}-")
        if number < 0:
            backend.store(keys, source)
            continue
        host.kv_buffer[:, target] = 0
        stored, put_seconds = timed(lambda: backend.store(keys, source))
        found, query_seconds = timed(lambda: backend.find(keys))
        fetched, get_seconds = timed(lambda: backend.fetch(keys, target))
        same = torch.equal(
            host.kv_buffer[:, source].view(torch.uint8), host.kv_buffer[:, target].view(torch.uint8)
        )
        totals["stored"] += stored
        totals["found"] += found
        totals["fetched"] += fetched
        totals["wrong"] += 0 if same else pages
        puts.append(nbytes / put_seconds)
        gets.append(nbytes / get_seconds)
        queries.append(query_seconds)
    host.free(source)
    host.free(target)
    return totals | {
        "store_bytes_per_second": round(statistics.median(puts)),
        "fetch_bytes_per_second": round(statistics.median(gets)),
        "query_ms": round(statistics.median(queries) * 1000, 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=32, help="per call [32]")
    parser.add_argument("--rounds", type=int, default=5, help="calls of each kind [5]")
    arguments = parser.parse_args()
    pages, rounds = arguments.pages, arguments.rounds
    host = host_pool(2 * pages)
    page_bytes = PAGE_TOKENS * host.get_size_per_token()
    dram = f"{POOL_ROUNDS * pages * page_bytes // 2**20 + 16}MiB"
    figures: dict[str, object] = {"pages": pages, "rounds": rounds, "page_bytes": page_bytes}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        figures["file"] = measure("file", Files(host, folder), host, pages, rounds)
    with Pool(dram=dram) as pool:
        for path in ("shm", "tcp"):
            backend = ZeroCopy(host, pool.master, path)
            figures[path] = measure(path, backend, host, pages, rounds)
            backend.storage.close()
    for path in ("shm", "tcp"):
        for way in ("store", "fetch"):
            rate = f"{way}_bytes_per_second"
            ratio = figures[path][rate] / figures["file"][rate]
            figures[f"{path}_{way}_times_file"] = round(ratio, 2)
    expected = {"stored": pages * rounds, "found": pages * rounds, "fetched": pages * rounds,
                "wrong": 0}
    complete = all(
        figures[path][name] == count for path in ("shm", "tcp") for name, count in expected.items()
    )
    fast = all(figures[name] >= bar for name, bar in BARS.items())
    figures |= {"bars": BARS, "holds": complete and fast}
    print(json.dumps(figures))
    return 0 if figures["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
