#!/usr/bin/env python3
"""What `moonpool kv-events` publishes, read by vLLM's own classes.

A pool of its own is started, objects are put and removed, and the batches are decoded with
msgspec into vllm.distributed.kv_events.KVEventBatch, live and by replay, the way that vLLM's
example of a subscriber does it: a gap in the numbers is filled from the replay socket.

  MOONPOOL_ENGINES=~/.cache/moonpool/engines tests/engines/kv_events_test.py --bin build/dev/bin

Run with any Python 3.10+: it goes on in vLLM's own venv, $MOONPOOL_ENGINES/vllm. Prints one line of
JSON at the end. Exit code 0: all holds; 1: something does not; 77: vLLM is not installed there.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

DEADLINE_S = 60
ENGINES = pathlib.Path(
    os.environ.get("MOONPOOL_ENGINES", pathlib.Path.home() / ".cache/moonpool/engines")
)
FINGERPRINT = "model=toy;dtype=bf16;page_tokens=16"
NAMESPACE = "toy"


def enter_venv() -> None:
    """Becomes the Python of vLLM's venv; exits with 77 where there is none."""
    python = ENGINES / "vllm/bin/python"
    if not python.exists():
        print(f"SKIPPED: vLLM is not installed in {ENGINES} (set MOONPOOL_ENGINES)")
        sys.exit(77)
    # Not its resolved path: a venv's python is a link.
    if pathlib.Path(sys.executable) != python:
        os.execv(python, [str(python), *sys.argv])


class Pool:
    """`moonpool dev` with one node, until the end of the `with`."""

    def __init__(self, bin_dir: pathlib.Path) -> None:
        self.moonpool = bin_dir / "moonpool"
        self.processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> "Pool":
        line = self.start("dev", "--nodes", "1", "--dram", "64MiB")
        self.master = re.fullmatch(r"ready: --master (\S+)", line)[1]
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):
            process.send_signal(signal.SIGINT)
            process.wait(timeout=DEADLINE_S)

    def start(self, *args: str) -> str:
        """Starts it and returns the line that says it is ready."""
        process = subprocess.Popen(
            [self.moonpool, *args], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.processes.append(process)
        line = process.stdout.readline().strip()
        if not line.startswith("ready: "):
            raise RuntimeError(f"moonpool {args[0]} did not become ready: {line!r}")
        return line

    def publisher(self, *args: str) -> tuple[str, str]:
        """A publisher on free ports; where it publishes and where it replays."""
        line = self.start(
            "kv-events", "--master", self.master, "--namespace", NAMESPACE,
            "--endpoint", "tcp://127.0.0.1:0", "--replay-endpoint", "tcp://127.0.0.1:0", *args)
        match = re.fullmatch(r"ready: --endpoint (\S+) --replay-endpoint (\S+)", line)
        return match[1], match[2]

    def run(self, *args: str, value: str = "") -> None:
        subprocess.run(
            [self.moonpool, args[0], "--master", self.master, "--namespace", NAMESPACE,
             "--fingerprint", FINGERPRINT, *args[1:]],
            input=value, text=True, check=True, stdout=subprocess.DEVNULL, timeout=DEADLINE_S)


class Subscriber:
    """Follows a publisher as vLLM's example does, with vLLM's types."""

    def __init__(self, endpoint: str, replay: str, topic: str) -> None:
        import msgspec
        import zmq
        from vllm.distributed.kv_events import KVEventBatch, ZmqEventPublisher

        self.decoder = msgspec.msgpack.Decoder(type=KVEventBatch)
        self.end = ZmqEventPublisher.END_SEQ
        self.topic = topic.encode()
        context = zmq.Context.instance()
        self.sub = context.socket(zmq.SUB)
        self.sub.setsockopt(zmq.RCVTIMEO, DEADLINE_S * 1000)
        self.sub.connect(endpoint)
        self.sub.setsockopt(zmq.SUBSCRIBE, self.topic)
        self.replay = context.socket(zmq.DEALER)
        self.replay.setsockopt(zmq.RCVTIMEO, DEADLINE_S * 1000)
        self.replay.connect(replay)
        self.next = 0
        self.events: list[object] = []
        self.blocks: set[bytes] = set()
        self.replayed = 0

    def take(self, payload: bytes) -> None:
        from vllm.distributed.kv_events import AllBlocksCleared, BlockRemoved, BlockStored

        batch = self.decoder.decode(payload)
        assert batch.ts > 1e9 and batch.data_parallel_rank == 0, batch
        for event in batch.events:
            self.events.append(event)
            if isinstance(event, BlockStored):
                self.blocks |= set(event.block_hashes)
            elif isinstance(event, BlockRemoved):
                self.blocks -= set(event.block_hashes)
            elif isinstance(event, AllBlocksCleared):
                self.blocks.clear()

    def fill(self) -> None:
        """Everything from the next number on that is kept."""
        self.replay.send_multipart((b"", self.next.to_bytes(8, "big")))
        while True:
            _, topic, number, payload = self.replay.recv_multipart()
            if number == self.end:
                assert (topic, payload) == (b"", b"")
                return
            assert topic == self.topic
            sequence = int.from_bytes(number, "big")
            if sequence < self.next:
                continue
            self.take(payload)
            self.replayed += 1
            self.next = sequence + 1

    def read(self) -> None:
        topic, number, payload = self.sub.recv_multipart()
        assert topic == self.topic
        sequence = int.from_bytes(number, "big")
        if sequence > self.next:
            self.fill()
        if sequence >= self.next:
            self.take(payload)
            self.next = sequence + 1

    def await_blocks(self, *hashes: str) -> None:
        """Until exactly these blocks are known; hexadecimal."""
        wanted = {bytes.fromhex(text) for text in hashes}
        while self.blocks != wanted:
            self.read()


def check_live(pool: Pool) -> dict[str, int]:
    from vllm.distributed.kv_events import AllBlocksCleared, BlockRemoved, BlockStored

    pool.run("put", "toy/0/0aff", "-", value="root")
    endpoint, replay = pool.publisher()
    reader = Subscriber(endpoint, replay, f"kv@moonpool@{NAMESPACE}")
    # A subscription that is new has missed what was published before it.
    while not reader.blocks:
        reader.fill()
    assert isinstance(reader.events[0], AllBlocksCleared), reader.events
    reader.await_blocks("0aff")
    pool.run("put", "toy/0/0bff", "-", "--parent", "toy/0/0aff", value="leaf")
    reader.await_blocks("0aff", "0bff")
    stored = reader.events[-1]
    assert stored == BlockStored(
        block_hashes=[b"\x0b\xff"], parent_block_hash=b"\x0a\xff", token_ids=[], block_size=16,
        lora_id=None, medium="EXTERNAL", lora_name=None), stored
    pool.run("rm", "toy/0/0aff")
    reader.await_blocks("0bff")
    removed = reader.events[-1]
    assert removed == BlockRemoved(block_hashes=[b"\x0a\xff"], medium="EXTERNAL"), removed

    late = Subscriber(endpoint, replay, f"kv@moonpool@{NAMESPACE}")
    late.fill()
    assert late.blocks == reader.blocks, (late.blocks, reader.blocks)
    return {"batches": reader.next, "replayed": reader.replayed}


def check_gap(pool: Pool) -> None:
    """Who asks for what is not kept any more is told everything anew."""
    endpoint, replay = pool.publisher("--keep-batches", "1")
    reader = Subscriber(endpoint, replay, f"kv@moonpool@{NAMESPACE}")
    while reader.next < 1:
        reader.fill()
    pool.run("put", "toy/0/0cff", "-", value="next")
    pool.run("put", "toy/0/0dff", "-", value="next")
    late = Subscriber(endpoint, replay, f"kv@moonpool@{NAMESPACE}")
    late.fill()
    late.await_blocks("0bff", "0cff", "0dff")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path,
                        default=os.environ.get("MOONPOOL_BIN", "build/dev/bin"),
                        help="folder of the programs")
    args = parser.parse_args()
    enter_venv()
    import vllm

    with Pool(args.bin.resolve()) as pool:
        figures = check_live(pool)
        check_gap(pool)
    print(json.dumps({"test": "kv_events", "vllm": vllm.__version__, **figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
