"""Which of SGLang's pages may be taken for which: moonpool.sglang.naming, and what it is told."""

from types import SimpleNamespace

import moonpool
import pytest
from moonpool.sglang import naming, server
from moonpool.sglang.options import Options


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


def bytes_pool(said="", chosen=""):
    options = Options(("m:1",), kv_cache_dtype=chosen)
    server = {"kv_cache_dtype": said} if said else {}
    return naming.engine_facts(engine(), host_pool(dtype="torch.uint8"), options, server)


def test_formats_that_lie_in_bytes_have_their_own_namespaces():
    def namespace(said):
        return naming.namespace_of(bytes_pool(said), "", moonpool.fingerprint)

    assert namespace("fp8_e4m3") != namespace("fp8_e5m2")
    assert "dtype=fp8_e5m2" in namespace("fp8_e5m2")[1]
    assert bytes_pool(chosen="fp8_e4m3") == bytes_pool("fp8_e4m3")


@pytest.mark.parametrize("said", ["", "auto"])
def test_bytes_that_may_be_anything_are_refused(said):
    with pytest.raises(ValueError, match="uint8.*--kv-cache-dtype"):
        bytes_pool(said)


def test_numbers_need_no_name():
    def facts(said):
        return naming.engine_facts(engine(), host_pool(), Options(("m:1",)), said)

    assert facts({"kv_cache_dtype": "auto"}) == facts({"kv_cache_dtype": "bfloat16"}) == facts({})


def test_the_tokens_of_a_page_stand_first():
    long = bytes_pool("fp8_e4m3") | {"model": "m" * 300}
    assert naming.namespace_of(long, "", moonpool.fingerprint)[1].startswith("page_tokens=64;")


# What SGLang was started with.


@pytest.fixture
def say(monkeypatch):
    """say(scales="", **settings): what SGLang says in this test."""

    def settings(scales="", **changes):
        given = dict.fromkeys((*server._MODEL, *server.DRAFT), "")
        monkeypatch.setattr(server, "_asked", lambda: (given | changes, scales))

    return settings


def test_other_weights_in_the_same_folder_are_other_facts(say, tmp_path):
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"first")
    say(model_path=str(tmp_path), speculative_draft_model_path=str(tmp_path))
    before = server.server_facts(Options(("m:1",)))
    assert server.server_facts(Options(("m:1",))) == before
    weights.write_bytes(b"others")
    after = server.server_facts(Options(("m:1",)))
    assert before["weights"] != after["weights"]
    assert before["draft_weights"] != after["draft_weights"]
    named = naming.engine_facts(engine(), host_pool(), Options(("m:1",)), before)
    assert named != naming.engine_facts(engine(), host_pool(), Options(("m:1",)), after)
    # Who names a revision says which weights they are, also for copies of the folder.
    assert "weights" not in server.server_facts(Options(("m:1",), revision="r1"))


def test_weights_that_cannot_be_told_are_said_to_be_so(say, caplog):
    say(model_path="s3://bucket/model")
    assert "weights" not in server.server_facts(Options(("m:1",)))
    assert "set `revision`" in caplog.text


def test_kv_scales_are_told_apart_by_what_is_in_their_file(say, tmp_path):
    file = tmp_path / "scales.json"
    say(model_path="m", scales=str(file))
    options = Options(("m:1",), revision="r1")
    with pytest.raises(ValueError, match="scales cannot be read"):
        server.server_facts(options)
    made = []
    for text in ("1.0", "2.0"):
        file.write_text(text)
        facts = server.server_facts(options)
        made.append(naming.engine_facts(engine(), host_pool(), options, facts))
    assert made[0] != made[1]


@pytest.mark.parametrize("error", [ImportError("no sglang"), ValueError("not published"),
                                   AttributeError("another version")])
def test_a_server_that_says_nothing_must_be_spoken_for(monkeypatch, error):
    def fail():
        raise error

    monkeypatch.setattr(server, "_asked", fail)
    assert server.server_facts(Options(("m:1",), model="m", revision="r1")) == {}
    for known in ({}, {"model": "m"}, {"revision": "r1"}):
        with pytest.raises(ValueError, match="set `model` and `revision`"):
            server.server_facts(Options(("m:1",), **known))
