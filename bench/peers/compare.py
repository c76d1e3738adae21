"""The same work on Moonpool, Mooncake and Redis, in turns.

    compare.py BUILD_DIR [--path tcp|shm] [--against mooncake,redis] [--rounds 5] [--seconds 0.4]
               [--sizes 64K,1M] [--threads 1,4] [--json FILE]

Each round measures every store once for each row, one after the other, so that what else the machine
does hits all alike; what is compared are medians over the rounds. All run on this host, each in
processes of its own, with memory enough for what is stored: over TCP on loopback, as if the pool were
elsewhere, or as a pool of this host is reached (Redis has no such way). bench/peers/README.md says how
to read it.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
PEERS = pathlib.Path(os.environ.get("MOONPOOL_PEERS", pathlib.Path.home() / ".cache/moonpool/peers"))
STORE_BYTES = 2 << 30
SIZES = {"64K": 64 << 10, "256K": 256 << 10, "1M": 1 << 20, "4M": 4 << 20, "16M": 16 << 20}
BATCH = 32
MOST_BATCH_BYTES = 128 << 20  # of all threads together
READY_SECONDS = 60
ANSWER_SECONDS = 300  # of a row, with the objects that it needs


class Processes:
    """What was started; ended in reverse order."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen] = []

    def start(self, name: str, command: list[str], ready: str, **environment: str) -> re.Match:
        """Starts it and waits until what it writes, to either output, matches `ready`."""
        log = pathlib.Path(self._folder, f"{name}.log")
        with open(log, "w", encoding="utf-8") as output:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, text=True,
                                       stderr=subprocess.STDOUT, env={**os.environ, **environment})
        self._running.append(process)
        deadline = time.monotonic() + READY_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            said = log.read_text(encoding="utf-8", errors="replace")
            if found := re.search(ready, said, re.MULTILINE):
                return found
            time.sleep(0.05)
        raise RuntimeError(f"{name} did not become ready:\n{_last_lines(log)}")

    def worker(self, name: str, python: str, arguments: list[str], **environment: str) -> Worker:
        log = pathlib.Path(self._folder, f"{name}-worker.log")
        process = subprocess.Popen(
            [python, str(HERE / "worker.py"), *arguments], text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env={**os.environ, **environment},
            stderr=open(log, "w", encoding="utf-8"))
        self._running.append(process)
        return Worker(name, process, log)

    def end(self) -> None:
        for process in reversed(self._running):
            process.stdin.close()
            process.send_signal(signal.SIGTERM)
        for process in reversed(self._running):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


class Worker:
    def __init__(self, name: str, process: subprocess.Popen, log: pathlib.Path) -> None:
        self.name = name
        self._process = process
        self._log = log
        self.version = self._read()["version"]

    def measure(self, case: dict) -> dict:
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict:
        """Its next answer. One that hangs is ended: then there is none."""
        guard = threading.Timer(ANSWER_SECONDS, self._process.kill)
        guard.start()
        try:
            for line in self._process.stdout:
                if line.startswith("{"):
                    return json.loads(line)
        finally:
            guard.cancel()
        raise RuntimeError(f"the worker of {self.name} has ended:\n{_last_lines(self._log)}")


def _last_lines(log: pathlib.Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_moonpool(processes: Processes, build: pathlib.Path, path: str) -> Worker:
    found = processes.start(
        "moonpool", [str(build / "bin/moonpool"), "dev", "--nodes", "1", "--dram", str(STORE_BYTES)],
        r"^ready: --master (\S+)")
    return processes.worker("moonpool", "/usr/bin/python3", ["moonpool", found[1], path],
                            PYTHONPATH=str(build / "python"))


def start_mooncake(processes: Processes, path: str) -> Worker:
    """As fast as its wheel can be set to: it keeps its connections. The pool is a provider's that
    is reached over TCP, or its daemon's, which has the client's buffers mapped."""
    python = str(PEERS / "mooncake/bin/python")
    settings = {"MC_TCP_ENABLE_CONNECTION_POOL": "1", "MC_LOG_LEVEL": "error"}
    if (PEERS / "lib").is_dir():
        settings["LD_LIBRARY_PATH"] = str(PEERS / "lib")
    port, http = free_port(), free_port()
    programs = next(PEERS.glob("mooncake/lib/python3*/site-packages/mooncake"))
    processes.start("mooncake-master",
                    [str(programs / "mooncake_master"), f"--rpc_port={port}",
                     f"--metrics_port={http}", "--rpc_address=127.0.0.1",
                     "--metrics_host=127.0.0.1", "--logtostderr=true"],
                    r"service started", **settings)
    master = f"127.0.0.1:{port}"
    if path == "shm":
        daemon = free_port()
        processes.start("mooncake-daemon",
                        [str(programs / "mooncake_client"), "--host=127.0.0.1", f"--port={daemon}",
                         f"--global_segment_size={STORE_BYTES}", "--local_buffer_size=64MB",
                         f"--master_server_address={master}", "--metadata_server=P2PHANDSHAKE",
                         "--protocol=tcp", "--threads=4", "--logtostderr=true"],
                        r"Starting real client service", **settings)
        return processes.worker("mooncake", python,
                                ["mooncake", f"127.0.0.1:{daemon}", "shm"], **settings)
    processes.start(
        "mooncake-provider",
        [python, "-c", f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
                       f"from mooncake_side import provide\n"
                       f"provide({master!r}, '127.0.0.1', {STORE_BYTES})"],
        r"^ready", **settings)
    return processes.worker("mooncake", python, ["mooncake", master, "tcp"], **settings)


def start_redis(processes: Processes) -> Worker:
    port = free_port()
    processes.start("redis", ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save",
                              "", "--appendonly", "no", "--maxmemory", str(STORE_BYTES),
                              "--maxmemory-policy", "noeviction"], r"Ready to accept connections")
    return processes.worker("redis", "/usr/bin/python3", ["redis", f"127.0.0.1:{port}"])


def rows(sizes: list[str], thread_counts: list[int]) -> list[dict]:
    cases = []
    for size in sizes:
        for threads in thread_counts:
            for batch in (1, max(2, min(BATCH, MOST_BATCH_BYTES // threads // SIZES[size]))):
                for op in ("get", "put"):
                    cases.append({"name": f"{op}_{size.lower()}_{threads}t_b{batch}", "op": op,
                                  "bytes": SIZES[size], "threads": threads, "batch": batch})
    return cases


def compare(workers: list[Worker], cases: list[dict], rounds: int, seconds: float) -> dict:
    rates = {case["name"]: {worker.name: [] for worker in workers} for case in cases}
    for number in range(rounds):
        for case in cases:
            print(f"\rround {number + 1} of {rounds}: {case['name']:<24}", end="", file=sys.stderr)
            # Who goes first alternates, too.
            for worker in workers if number % 2 == 0 else reversed(workers):
                measured = worker.measure({**case, "seconds": seconds})
                rates[case["name"]][worker.name].append(measured["gigabytes_per_second"])
    print(file=sys.stderr)
    return rates


def report(rates: dict, peers: list[str]) -> dict:
    """Prints the table; returns, per peer, how many times as fast Moonpool was in each row."""
    ratios: dict[str, dict[str, float]] = {peer: {} for peer in peers}
    print(f"{'GB/s':<20} {'moonpool':>20}" + "".join(f"{p:>20} {'times':>6}" for p in peers))
    for name, row in rates.items():
        ours = row["moonpool"]
        line = f"{name:<20} {_range(ours):>20}"
        for peer in peers:
            per_round = [a / b for a, b in zip(ours, row[peer])]
            ratios[peer][name] = statistics.median(per_round)
            line += f"{_range(row[peer]):>20} {ratios[peer][name]:>6.2f}"
        print(line)
    for peer in peers:
        values = ratios[peer].values()
        print(f"against {peer}: median {statistics.median(values):.2f}, least {min(values):.2f}")
    return ratios


def _range(rates: list[float]) -> str:
    return f"{statistics.median(rates):.2f} ({min(rates):.2f}..{max(rates):.2f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path, nargs="?", default="build/release")
    parser.add_argument("--path", choices=("tcp", "shm"), default="tcp",
                        help="as a pool elsewhere is reached, or one of this host [tcp]")
    parser.add_argument("--against", help="[mooncake,redis; mooncake with --path shm]")
    parser.add_argument("--rounds", type=int, default=5, help="[5]")
    parser.add_argument("--seconds", type=float, default=0.4, help="of each row and store [0.4]")
    parser.add_argument("--sizes", default=",".join(SIZES), help=f"of {','.join(SIZES)} [all]")
    parser.add_argument("--threads", default="1,4", help="[1,4]")
    parser.add_argument("--json", help="file for every figure")
    args = parser.parse_args()
    peers = (args.against or ("mooncake,redis" if args.path == "tcp" else "mooncake")).split(",")
    if args.path == "shm" and "redis" in peers:
        parser.error("Redis is reached over TCP alone: --path shm compares with mooncake")
    sizes = args.sizes.upper().split(",")
    if not set(sizes) <= set(SIZES):
        parser.error(f"--sizes {args.sizes}: choose of {','.join(SIZES)}")
    with tempfile.TemporaryDirectory(prefix="moonpool-peers-") as folder:
        processes = Processes(folder)
        try:
            workers = [start_moonpool(processes, args.build.resolve(), args.path)]
            if "mooncake" in peers:
                workers.append(start_mooncake(processes, args.path))
            if "redis" in peers:
                workers.append(start_redis(processes))
            cases = rows(sizes, [int(n) for n in args.threads.split(",")])
            rates = compare(workers, cases, args.rounds, args.seconds)
        finally:
            processes.end()
    ratios = report(rates, peers)
    if args.json:
        result = {"path": args.path,
                  "versions": {worker.name: worker.version for worker in workers},
                  "rates": rates, "ratios": ratios}
        pathlib.Path(args.json).write_text(json.dumps(result, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
