"""The parts of moonpool.sglang that need no SGLang. With it: tests/engines/sglang_*_test.py."""

import logging
from types import SimpleNamespace

import moonpool
import pytest
from moonpool.sglang import naming, outcome
from moonpool.sglang.options import Options
from moonpool.sglang.outcome import Outcome
from moonpool.sglang.prefix import leading, legal_ends
from moonpool.sglang.recent import RecentKeys
from moonpool.sglang.transfer import PoolIo


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class FakeClient:
    """Answers with what is in `answers` (a list, or an error to raise), and counts the calls."""

    def __init__(self, clock=None, seconds=0.0):
        self.answers = []
        self.calls = []
        self.clock = clock
        self.seconds = seconds  # that each call takes

    def _answer(self, keys, timeout):
        self.calls.append((list(keys), timeout))
        if self.clock:
            self.clock.now += self.seconds
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def get_into_many(self, keys, targets, *, timeout):
        return self._answer(keys, timeout)

    def put_many(self, keys, values, *, timeout, **_):
        return self._answer(keys, timeout)

    def exists_many(self, keys, *, timeout):
        return self._answer(keys, timeout)

    def match_prefix(self, keys, *, hold, timeout):
        self.held = hold
        return self._answer(keys, timeout)

    def close(self):
        self.answers = None


def error(code, reason="", **more):
    return moonpool.MoonpoolError("what", code=code, reason=reason, **more)


def pool_io(client, clock, **options):
    io = PoolIo(lambda timeout: client, Options(("m:1",), **options), clock)
    io.attach(1.0)
    return io


def read(io, count, nbytes=10):
    keys = [f"k{i}" for i in range(count)]
    return io.read(keys, keys, [nbytes] * count, io.read_deadline())


def write(io, count, nbytes=10):
    keys = [f"k{i}" for i in range(count)]
    return io.write(keys, keys, [nbytes] * count, keys, io.write_deadline())


# Outcomes.


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (True, Outcome.DONE),
        (False, Outcome.DONE),
        (error("ALREADY_EXISTS"), Outcome.DONE),
        (error("ABORTED", "BEING_WRITTEN"), Outcome.DONE),
        (error("INVALID_ARGUMENT", "DUPLICATE_KEY"), Outcome.DONE),
        (error("RESOURCE_EXHAUSTED", "NO_SPACE"), Outcome.DROPPED),
        (error("INVALID_ARGUMENT", "VALUE_TOO_LARGE"), Outcome.DROPPED),
        (error("UNAVAILABLE", "REPLICAS_UNMET"), Outcome.AWAY),
        (error("DEADLINE_EXCEEDED"), Outcome.AWAY),
        (error("DATA_LOSS", "CHECKSUM_MISMATCH"), Outcome.WRONG),
        (error("FAILED_PRECONDITION"), Outcome.WRONG),
    ],
)
def test_what_a_put_came_to(answer, expected):
    assert outcome.of_put(answer) is expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (10, Outcome.DONE),
        (9, Outcome.WRONG),
        (0, Outcome.WRONG),
        (error("NOT_FOUND", "EVICTED"), Outcome.MISSED),
        (error("NOT_FOUND", "NODE_LOST"), Outcome.MISSED),
        (error("INVALID_ARGUMENT", "BUFFER_TOO_SHORT"), Outcome.WRONG),
        (error("UNAVAILABLE"), Outcome.AWAY),
        (error("CANCELLED"), Outcome.AWAY),
    ],
)
def test_what_a_get_came_to(answer, expected):
    assert outcome.of_get(answer, 10) is expected


# Calls.


def test_a_pool_that_is_away_costs_one_call(caplog):
    clock, client = Clock(), FakeClient()
    io = pool_io(client, clock, pause_first=1.0)
    client.answers = [error("UNAVAILABLE"), [10]]
    assert read(io, 1) == [False] and read(io, 1) == [False] and read(io, 3) == [False] * 3
    assert len(client.calls) == 1
    clock.now += 1.0
    assert read(io, 1) == [True]
    assert io.counts()["get_not_tried"] == 2
    assert "the pool cannot be used" in caplog.text


def test_all_keys_unreachable_is_a_pool_that_is_away_and_some_are_not():
    clock, client = Clock(), FakeClient()
    io = pool_io(client, clock)
    client.answers = [[10, error("UNAVAILABLE")], [error("UNAVAILABLE"), error("UNAVAILABLE")]]
    assert read(io, 2) == [True, False]
    assert read(io, 2) == [False, False]
    assert read(io, 2) == [False, False]
    assert len(client.calls) == 2


def test_reads_go_on_while_writes_fail():
    clock, client = Clock(), FakeClient()
    io = pool_io(client, clock)
    client.answers = [error("DEADLINE_EXCEEDED"), [10]]
    assert write(io, 1) == [False] and read(io, 1) == [True]


def test_no_error_whatever_gets_out(caplog):
    clock, client = Clock(), FakeClient()
    io = pool_io(client, clock)
    client.answers = [TypeError("a bug"), [TypeError("another"), True]]
    assert io.match(["a"], io.query_deadline()) == 0
    assert write(io, 2) == [False, True]
    assert "a bug" in caplog.text and "another" in caplog.text


def test_a_batch_goes_in_pieces_until_one_fails():
    clock, client = Clock(), FakeClient()
    io = pool_io(client, clock, chunk_bytes=25)
    client.answers = [[10, 10], [10, error("NOT_FOUND")]]
    assert read(io, 7) == [True, True, True] + [False] * 4
    assert [keys for keys, _ in client.calls] == [["k0", "k1"], ["k2", "k3"]]


def test_pieces_share_one_deadline_and_running_out_is_no_outage():
    clock = Clock()
    client = FakeClient(clock, seconds=3.0)
    io = pool_io(client, clock, chunk_bytes=10, load_timeout=4.0)
    client.answers = [[10], [error("DEADLINE_EXCEEDED")], [10]]
    assert read(io, 3) == [True, False, False]
    assert [timeout for _, timeout in client.calls] == [4.0, 1.0]
    assert read(io, 1) == [True]  # at once: the batch was large, the pool is there


def test_large_objects_go_one_by_one():
    clock, client = Clock(), FakeClient()
    io = pool_io(client, clock, chunk_bytes=1)
    client.answers = [[True], [True]]
    assert write(io, 2) == [True, True]


def test_a_query_counts_what_is_there_from_the_front():
    clock, client = Clock(), FakeClient()
    io = pool_io(client, clock, hold=7.0)
    client.answers = [SimpleNamespace(matched=2, miss=error("NOT_FOUND", "EVICTED"))]
    assert io.match(["a", "b", "c"], io.query_deadline()) == 2
    assert io.counts()["query_evicted"] == 1
    assert client.held == 7.0


def test_a_client_that_comes_late_is_taken_and_one_that_is_refused_is_not_asked_again():
    clock, client = Clock(), FakeClient()
    client.answers = [[10]]
    attempts = [error("FAILED_PRECONDITION", "FINGERPRINT_MISMATCH"), error("UNAVAILABLE"), client]

    def connect(timeout):
        made = attempts.pop(0)
        if isinstance(made, Exception):
            raise made
        return made

    io = PoolIo(connect, Options(("m:1",), pause_first=1.0), clock)
    assert read(io, 1) == [False] and read(io, 1) == [False]
    assert len(attempts) == 2
    clock.now += 1.0
    assert read(io, 1) == [False]
    clock.now += 2.0
    assert read(io, 1) == [True]


def test_the_time_to_connect_is_part_of_a_calls_time():
    clock, client = Clock(), FakeClient()
    client.answers = [[10]]

    def connect(timeout):
        clock.now += 3.0
        return client

    assert read(PoolIo(connect, Options(("m:1",), load_timeout=4.0), clock), 1) == [True]
    assert client.calls == [(["k0"], 1.0)]


def test_nothing_is_called_after_close():
    clock, client = Clock(), FakeClient()
    io = pool_io(client, clock)
    io.close()
    io.close()
    assert read(io, 1) == [False] and client.calls == []


def test_a_summary_now_and_then(caplog):
    caplog.set_level(logging.INFO)
    clock, client = Clock(), FakeClient()
    io = pool_io(client, clock, summary_every=60.0)
    client.answers = [[True], [True]]
    write(io, 1)
    assert caplog.text == ""
    clock.now += 60.0
    write(io, 1)
    assert "2 stored" in caplog.text


# Names.


def engine(**changes):
    values = {
        "tp_rank": 0, "tp_size": 2, "pp_rank": 0, "pp_size": 1, "attn_cp_rank": 0,
        "attn_cp_size": 1, "is_mla_model": False, "model_name": "org/m", "tp_lcm_size": None,
    }
    return SimpleNamespace(**(values | changes))


def host_pool(**changes):
    return SimpleNamespace(**({"layout": "page_head", "page_size": 64, "dtype": "torch.bfloat16",
                               "head_num": 8} | changes))


def names(config, **more):
    return naming.page_names(config, pool_name="kv", shape={}, **({"replicated": False} | more))


def test_a_key_ends_in_the_hash_and_begins_with_whose_bytes_they_are():
    assert names(engine()).keys(["aa", "bb"])[1].startswith("tp0of2.kv.")
    assert names(engine()).keys(["aa", "bb"])[1].endswith("/bb")
    assert names(engine(), replicated=True).keys(["aa"])[0].startswith("all.kv.")
    deep = engine(pp_rank=1, pp_size=2, attn_cp_rank=3, attn_cp_size=4)
    assert names(deep).keys(["aa"])[0].startswith("tp0of2.pp1of2.cp3of4.kv.")


def test_cuts_of_heads_are_the_same_for_every_tp_size():
    keys = {}
    for tp_size in (1, 2, 4):
        for rank in range(tp_size):
            config = engine(tp_rank=rank, tp_size=tp_size, tp_lcm_size=4)
            split = naming.head_split(config, "page_head")
            shape = naming.page_shape(host_pool(head_num=8 // tp_size), (100, 100), split.factor)
            made = naming.page_names(
                config, pool_name="kv", shape=shape, replicated=False, split=split
            )
            keys.setdefault(tp_size, []).extend(made.keys(["aa"]))
    assert keys[1] == keys[2] == keys[4] and len(set(keys[1])) == 4


@pytest.mark.parametrize("fact", ["start_layer", "head_dim", "conv_state_shapes", "dtype"])
def test_what_shapes_a_page_is_in_its_key(fact):
    def key(value):
        shape = naming.page_shape(host_pool(**{fact: value}), (100,))
        return naming.page_names(
            engine(), pool_name="kv", shape=shape, replicated=False
        ).keys(["aa"])

    assert key(1) == key(1) and key(1) != key(2)


def test_a_page_hangs_on_the_same_cut_of_the_page_before_it():
    config = engine(tp_size=1, tp_lcm_size=2)
    made = names(config, split=naming.head_split(config, "page_head"))
    keys = made.keys(["aa", "bb"])
    assert made.parents(["aa", "bb"], "") == ["", "", keys[0], keys[1]]
    assert made.parents(["bb"], "aa") == keys[:2]
    assert made.parents([], "aa") == []


def test_a_namespace_for_each_layout_and_the_operators_name_first():
    facts = naming.engine_facts(engine(), host_pool(), Options(("m:1",)), {"revision": "r1"})
    name, text = naming.namespace_of(facts, "", moonpool.fingerprint)
    assert name.startswith("sglang.m.") and "dtype=bfloat16" in text
    other = naming.engine_facts(engine(), host_pool(), Options(("m:1",)), {"revision": "r2"})
    assert naming.namespace_of(other, "", moonpool.fingerprint) != (name, text)
    assert naming.namespace_of(facts, "mine", moonpool.fingerprint) == ("mine", text)
    long = facts | {"model": "m" * 300, "path": "p" * 300}
    name, text = naming.namespace_of(long, "", moonpool.fingerprint)
    assert len(name + text) <= 254


def test_a_named_model_does_not_depend_on_where_it_lies():
    def facts(options, path):
        return naming.engine_facts(engine(), host_pool(), options, {"model_path": path})

    named, served = Options(("m:1",), model="llama"), Options(("m:1",))
    assert facts(named, "/a") == facts(named, "/b")
    assert facts(served, "/a") != facts(served, "/b")


# Prefixes and the rest.


def transfer(policy, keys=()):
    return SimpleNamespace(hit_policy=policy, keys=list(keys))


def test_where_a_prefix_may_end():
    present = [True, False, True, True]
    assert legal_ends(transfer("all_pages"), present, 5) == {1}
    assert legal_ends(transfer("trailing_pages", "a"), present, 5) == {1, 3, 4}
    assert legal_ends(transfer("trailing_pages", "ab"), present, 5) == {1, 4}
    assert legal_ends(transfer("trailing_pages"), [], 2) == set()
    assert legal_ends(transfer("block_groups"), present, 5) is None
    assert leading([]) == 0 and leading([True, True]) == 2 and leading([False, True]) == 0


def test_recent_keys_are_bounded_and_taken_once():
    recent = RecentKeys(keys_max=2)
    recent.add(["a", "b", "a", "c"])
    assert recent.take() == ["a", "c"] and recent.take() == []


def test_options_are_checked():
    parsed = Options.parse({"masters": "a:1, b:2", "interface_v1": 1, "hold": 3})
    assert parsed.masters == ("a:1", "b:2") and parsed.hold == 3.0
    for wrong in (
        {}, {"masters": 7}, {"masters": "a:1", "hodl": 1}, {"masters": "a:1", "hold": True},
        {"masters": "a:1", "replicas": 0}, {"masters": "a:1", "store_timeout": 10},
        {"masters": "a:1", "path": "rdma"}, {"masters": "a:1", "min_replicas": 2},
    ):
        with pytest.raises(ValueError, match="moonpool: "):
            Options.parse(wrong)
