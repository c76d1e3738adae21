#!/usr/bin/env python3
"""What `moonpool kv-events` publishes, read by vLLM's own classes.

A pool of its own is started, objects are put and removed, and the batches are decoded with
msgspec into vllm.distributed.kv_events.KVEventBatch, live and by replay, the way that vLLM's
example of a subscriber does it: a gap in the numbers is filled from the replay socket.

  MOONPOOL_BIN=build/dev/bin tests/engines/kv_events_test.py

Run with any Python 3.10+: it goes on in vLLM's own venv, $MOONPOOL_ENGINES/vllm (by default
~/.cache/moonpool/engines/vllm). Prints one line of
JSON at the end. Exit code 0: all holds; 1: something does not; 77: vLLM is not installed there.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from pool import Daemon, Pool, program  # noqa: E402

DEADLINE_S = 60
ENGINES = pathlib.Path(
    os.environ.get("MOONPOOL_ENGINES", pathlib.Path.home() / ".cache/moonpool/engines")
)
FINGERPRINT = "page_tokens=16;dtype=bf16;model=toy"  # as the adapters write theirs
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


class EventPool(Pool):
    """One node, with publishers and the commands of one namespace."""

    def __init__(self) -> None:
        super().__init__(dram="64MiB")
        self._publishers: list[Daemon] = []

    def close(self) -> None:
        for publisher in self._publishers:
            publisher.stop()
        super().close()

    def publisher(
        self, *args: str, endpoint: str = "tcp://127.0.0.1:0", replay: str = "tcp://127.0.0.1:0"
    ) -> tuple[str, str]:
        """A publisher, on free ports by default; where it publishes and where it replays."""
        started = Daemon(
            [program("moonpool"), "kv-events", "--master", self.master, "--namespace", NAMESPACE,
             "--endpoint", endpoint, "--replay-endpoint", replay, *args],
            r"^ready: --endpoint (\S+) --replay-endpoint (\S+)")
        self._publishers.append(started)
        return started.match[1], started.match[2]

    def stop_publisher(self) -> None:
        """Ends the last one that was started."""
        self._publishers.pop().stop()

    def run(self, *args: str, value: str = "") -> None:
        subprocess.run(
            [program("moonpool"), args[0], "--master", self.master, "--namespace", NAMESPACE,
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
        self.next = 0  # whatever it gets first is a gap
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

    def cleared(self) -> int:
        """How often all was void."""
        from vllm.distributed.kv_events import AllBlocksCleared

        return sum(isinstance(event, AllBlocksCleared) for event in self.events)

    def await_blocks(self, *hashes: str) -> None:
        """Until exactly these blocks are known; hexadecimal."""
        wanted = {bytes.fromhex(text) for text in hashes}
        while self.blocks != wanted:
            self.read()


def check_live(pool: EventPool) -> dict[str, int]:
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
    assert reader.next > 1e15, "numbers begin at the microseconds since 1970"
    return {"replayed": reader.replayed}


def check_groups(pool: EventPool) -> None:
    """Blocks of two groups have one hash, and are two."""
    endpoint, replay = pool.publisher()
    reader = Subscriber(endpoint, replay, f"kv@moonpool@{NAMESPACE}")
    while reader.next == 0:
        reader.fill()
    for key in ("g0/0eff", "g1/0eff"):
        pool.run("put", key, "-", value="part")
    pool.run("rm", "g1/0eff")
    while not (groups := [event.group_idx for event in reader.events
                          if b"\x0e\xff" in getattr(event, "block_hashes", ())])[2:]:
        reader.read()
    assert groups == [0, 1, 1], reader.events
    pool.run("rm", "g0/0eff")


def check_gap(pool: EventPool) -> None:
    """Who asks for what is not kept any more is told everything anew, and nobody else is."""
    endpoint, replay = pool.publisher("--keep-batches", "1")
    reader = Subscriber(endpoint, replay, f"kv@moonpool@{NAMESPACE}")
    while reader.next == 0:
        reader.fill()
    pool.run("put", "toy/0/0cff", "-", value="next")
    reader.await_blocks("0bff", "0cff")
    pool.run("put", "toy/0/0dff", "-", value="next")
    reader.await_blocks("0bff", "0cff", "0dff")
    cleared = reader.cleared()
    late = Subscriber(endpoint, replay, f"kv@moonpool@{NAMESPACE}")
    late.fill()
    assert late.blocks == reader.blocks, late.blocks
    assert late.next == reader.next, "it goes on with what is published"
    pool.run("rm", "toy/0/0dff")
    reader.await_blocks("0bff", "0cff")
    late.await_blocks("0bff", "0cff")
    assert reader.cleared() == cleared, reader.events


def check_restart(pool: EventPool) -> None:
    """Who listens on over a restart of the publisher forgets what is gone since."""
    with tempfile.TemporaryDirectory() as folder:
        # Not TCP: another process could take a free port meanwhile.
        at = {"endpoint": f"ipc://{folder}/live", "replay": f"ipc://{folder}/replay"}
        pool.publisher(**at)
        reader = Subscriber(*at.values(), f"kv@moonpool@{NAMESPACE}")
        while not reader.blocks:
            reader.fill()
        reader.await_blocks("0bff", "0cff")
        pool.stop_publisher()
        pool.run("rm", "toy/0/0cff")
        pool.publisher(**at)
        # When it is connected again nobody is told: batches before that it does not see. Nothing
        # more happens in the pool, and it finds the gap all the same.
        while reader.cleared() < 2:
            reader.read()  # or one of before, which is passed over
        reader.await_blocks("0bff")
        assert reader.cleared() == 2, reader.events


def main() -> int:
    enter_venv()
    import vllm

    with EventPool() as pool:
        figures = check_live(pool)
        check_groups(pool)
        check_gap(pool)
        check_restart(pool)
    print(json.dumps({"test": "kv_events", "vllm": vllm.__version__, **figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
