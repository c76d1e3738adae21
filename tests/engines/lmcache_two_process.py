#!/usr/bin/env python3
"""Two processes of `lmcache bench l2` share chunks through a pool.

Started by tests/scenarios/lmcache_plugin.sh with LMCache's Python and moonpool on PYTHONPATH. The
first one stores chunks, looks them up, loads them and compares the bytes; the second one loads the
same chunks. Prints one line of JSON at the end. Exit code 0: all chunks arrived; 1: they did not.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MOONPOOL_BUILD", ROOT / "build/dev")).resolve()
sys.path.insert(0, str(ROOT / "tests/harness"))
os.environ.setdefault("MOONPOOL_BIN", str(BUILD / "bin"))

from pool import Pool  # noqa: E402

CHUNKS = ["--num-keys", "16", "--in-flight", "4", "--rounds", "4", "--warmup-rounds", "1",
          "--data-size-kb", "1024"]
TIMEOUT_SECONDS = 300


def bench(master: str, *arguments: str) -> dict[str, dict]:
    """Runs `lmcache bench l2` in a process of its own; the figures of each operation by name.

    Raises RuntimeError when it fails: with --no-skip-verify, also where a byte differs.
    """
    spec = {"type": "native_plugin", "module_path": "moonpool.lmcache", "class_name": "Connector",
            "adapter_params": {"masters": master, "fingerprint": {"dtype": "uint8"}}}
    program = pathlib.Path(sys.executable).parent / "lmcache"
    with tempfile.NamedTemporaryFile("r", suffix=".json") as figures:
        ran = subprocess.run(
            [str(program), "bench", "l2", "--l2-adapter", json.dumps(spec), "--format", "json",
             "--output", figures.name, *CHUNKS, *arguments],
            capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
        if ran.returncode != 0:
            raise RuntimeError(f"lmcache bench l2 {arguments} failed: {ran.stdout}{ran.stderr}")
        sections = json.load(figures)["metrics"]
    return {section["operation"].lower(): section for name, section in sections.items()
            if name.startswith("op_")}


def figures_of(operation: dict) -> dict[str, float]:
    return {"chunks": operation["total_keys"], "arrived": operation["total_success"],
            "mb_per_s": operation["throughput_avg_mbps"],
            "ms_per_chunk": operation["latency_per_key_ms"]}


def main() -> int:
    with Pool(nodes=2, dram="1GiB") as pool:
        operations = bench(pool.master, "--lookup-max-hit-rate", "1", "--no-skip-verify")
        operations["load_by_the_other"] = bench(pool.master, "--only", "load")["load"]
    holds = sorted(operations) == ["load", "load_by_the_other", "lookup", "store"] and all(
        operation["total_success"] == operation["total_keys"] > 0
        for operation in operations.values())
    print(json.dumps({"scenario": "lmcache_plugin", "holds": holds}
                     | {name: figures_of(figures) for name, figures in operations.items()}))
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
