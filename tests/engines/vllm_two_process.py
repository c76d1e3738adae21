#!/usr/bin/env python3
"""Two vLLM engines share the KV cache of long prefixes through a pool; see
tests/scenarios/vllm_two_process.sh, which runs this with the Python of vLLM.

    vllm_two_process.py FOLDER [--rounds 5] [--prefix 4096]

For both integrations, the connector and the tier:
  - greedy tokens are the same as without Moonpool: cold, with hits, and while a node is killed;
  - a second engine and a restarted one hit what the first one stored, by vLLM's own counters;
  - an engine whose weights change goes on, and takes nothing from the pool any more;
  - the first token of a long prompt comes sooner than by computing it (`ratio`, of the best of
    `--rounds` different prompts each).
Logs of the engines are in FOLDER. The last line is JSON; exit 1 when a bar does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import moonpool

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "harness"))
from pool import Master, Node  # noqa: E402

SUFFIX = 40  # tokens behind the shared prefix: less than a block
NEW_TOKENS = 12
MIN_RATIO = 2.0  # a hit that is not clearly faster than computing is not worth having


class Child:
    """A vllm_engine.py, asked by lines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._read()

    def ask(self, do: str, **order: Any) -> Any:
        """What the engine answers; RuntimeError when it died."""
        self.tell(do, **order)
        return self._read()

    def tell(self, do: str, **order: Any) -> None:
        """Only sends: `answer` fetches what comes of it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **order}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """The answer to what was told."""
        return self._read()

    def generate(self, prompts: list[list[int]], tokens: int = NEW_TOKENS) -> Any:
        """Greedy continuations of the prompts, all at once."""
        return self.ask("generate", prompts=prompts, tokens=tokens)

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the engine died; see its log")
        return json.loads(line)


class Bench:
    """Prompts, engines and verdicts of one run."""

    def __init__(self, folder: Path, rounds: int, prefix: int) -> None:
        self.folder = folder
        self.model = folder / "model"
        rng = random.Random(7)

        def tokens(count: int) -> list[int]:
            return [rng.randrange(2, 2048) for _ in range(count)]

        shared = tokens(prefix)
        self.prefix = prefix
        self.prompts = [shared + tokens(SUFFIX) for _ in range(3)] + [tokens(300), tokens(50)]
        self.timed = [tokens(prefix + SUFFIX) for _ in range(rounds)]
        self.wrong: list[str] = []
        self.figures: dict[str, Any] = {"prefix_tokens": prefix, "rounds": rounds}

    def check(self, holds: bool, what: str) -> None:
        """Notes a bar that does not hold."""
        print(f"{'ok' if holds else 'WRONG'}: {what}", flush=True)
        if not holds:
            self.wrong.append(what)

    @contextmanager
    def engine(
        self, name: str, mode: str, *arguments: str, processes: bool = False
    ) -> Iterator[Child]:
        """A running engine; its log is FOLDER/name.log. arguments: master, options."""
        log = open(self.folder / f"{name}.log", "w")
        environment = {
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "1" if processes else "0",
            "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
        }
        process = subprocess.Popen(
            [sys.executable, str(HERE / "vllm_engine.py"), mode, str(self.model), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
        try:
            yield Child(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            log.close()

    def best(self, *children: Child) -> list[float]:
        """Of each engine the shortest time to the first token of the timed prompts.

        They take turns, so that whatever else the machine does slows all of them.
        """
        seconds = [[child.generate([prompt], 1)["seconds"] for child in children]
                   for prompt in self.timed]
        return [round(min(column), 4) for column in zip(*seconds)]


def share(bench: Bench, mode: str, plain: Child) -> None:
    """One integration: cold, a second engine, a restarted one, and a node that is killed."""
    shared = bench.prefix - bench.prefix % 128
    expected = plain.generate(bench.prompts)["tokens"]
    with Master() as master, Node(master.address, "node-0", dram="1GiB") as node:
        with moonpool.Client(master.address) as client:
            client.put("ready", b"")  # waits until the node has registered
        with bench.engine(f"{mode}-a", mode, master.address) as first:
            cold = first.generate(bench.prompts)
            bench.check(cold["tokens"] == expected, f"{mode}: the same tokens cold")
            first.generate(bench.timed, 1)
            first.ask("settle")
            with bench.engine(f"{mode}-b", mode, master.address, "fixed_weights") as second:
                time_hits(bench, mode, plain, second)
                hit_by_second(bench, mode, second, expected, shared)
            part_with_new_weights(bench, mode, first, expected)
        with bench.engine(
            f"{mode}-a2", mode, master.address, "fixed_weights", processes=True
        ) as again:
            warm = again.generate(bench.prompts[:1])
            bench.check(warm["tokens"] == expected[:1], f"{mode}: the same tokens when restarted")
            bench.check(warm["cached"][0] >= shared, f"{mode}: a restarted engine hits")
            kill_in_the_middle(bench, mode, again, node, expected)


def time_hits(bench: Bench, mode: str, plain: Child, child: Child) -> None:
    """An engine that has computed nothing yet answers sooner than one that computes."""
    plain.ask("reset")
    computed, hit = bench.best(plain, child)
    bench.figures[f"{mode}_computed_s"], bench.figures[f"{mode}_hit_s"] = computed, hit
    bench.figures[f"{mode}_ratio"] = round(computed / hit, 2)
    bench.check(computed / hit >= MIN_RATIO,
                f"{mode}: first token {computed / hit:.1f} times sooner with a hit")


def hit_by_second(
    bench: Bench, mode: str, child: Child, expected: list[list[int]], shared: int
) -> None:
    """It finds all that the first one stored, by vLLM's own counters, and says the same."""
    warm = child.generate(bench.prompts)
    bench.check(warm["tokens"] == expected, f"{mode}: the same tokens with hits")
    bench.check(min(warm["cached"][:3]) >= shared, f"{mode}: the whole prefix is hit")
    counted = child.ask("metrics").get("vllm:external_prefix_cache_hits", 0)
    bench.figures[f"{mode}_hit_tokens"] = int(counted)
    bench.check(counted >= shared * (len(bench.timed) + 1), f"{mode}: vLLM counts {counted} hits")


def part_with_new_weights(
    bench: Bench, mode: str, child: Child, expected: list[list[int]]
) -> None:
    """An engine whose weights change, with saves under way, takes nothing from the pool."""
    child.ask("new_weights")
    after = child.generate(bench.prompts[:1])
    bench.check(after["tokens"] == expected[:1], f"{mode}: the same tokens after a pause")
    bench.check(after["cached"] == [0], f"{mode}: nothing is hit with other weights")


def kill_in_the_middle(
    bench: Bench, mode: str, child: Child, node: Node, expected: list[list[int]]
) -> None:
    """The only node dies while requests are being answered from it: they are computed instead."""
    child.ask("reset")
    order = [*bench.prompts, *bench.timed]
    child.tell("generate", prompts=order, tokens=NEW_TOKENS)
    threading.Event().wait(0.05)  # about when the first loads run; any moment must do
    node.kill()
    killed = child.answer()
    bench.check(killed["tokens"][: len(expected)] == expected,
                f"{mode}: the same tokens while the node is killed")
    child.ask("reset")
    after = child.generate(bench.prompts)
    bench.check(after["tokens"] == expected, f"{mode}: the same tokens without a node")
    bench.check(max(after["cached"][:1]) == 0 or mode == "tier",
                f"{mode}: nothing is taken from a node that is gone")
    child.ask("reset")
    bench.figures[f"{mode}_without_node_s"] = bench.best(child)[0]


def main() -> int:
    """Runs all of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prefix", type=int, default=4096)
    parser.add_argument("--modes", default="connector,tier")
    args = parser.parse_args()
    bench = Bench(args.folder, args.rounds, args.prefix)
    subprocess.run([sys.executable, str(HERE / "make_tiny_model.py"), str(bench.model)],
                   check=True)
    with bench.engine("plain", "plain") as plain:
        plain.generate([bench.timed[0][:2000]], 1)  # the first run is slower
        for mode in args.modes.split(","):
            share(bench, mode, plain)
    bench.figures["wrong"] = bench.wrong
    print(json.dumps(bench.figures), flush=True)
    return 1 if bench.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
