"""What the adapters of all engines make of the options that they are given: moonpool._options."""

from dataclasses import dataclass, fields

import moonpool
import pytest

from moonpool import _names, _options
from moonpool.lmcache.options import Options as OfLmcache
from moonpool.sglang.options import Options as OfSglang
from moonpool.vllm.layout import Layout
from moonpool.vllm.options import Options as OfVllm

ENGINES = pytest.mark.parametrize("options", [OfSglang, OfVllm])
ADAPTERS = pytest.mark.parametrize("options", [OfLmcache, OfSglang, OfVllm])


@dataclass(frozen=True)
class Example:
    masters: tuple[str, ...] = ()
    count: int = 1
    share: float = 0.5
    name: str = ""
    on: bool = False


def parse(**given):
    return _options.parse(Example, {"masters": "a:1"} | given, "the file")


def parsed(options, given):
    """The options of an adapter, with what it cannot do without."""
    return options.parse({"fingerprint": "f"} | given if options is OfLmcache else given)


def test_values_are_of_the_declared_types():
    assert parse(count=2, share=1, name="n", on=True) == Example(("a:1",), 2, 1.0, "n", True)
    assert isinstance(parse(share=1).share, float)
    for name, value, said in (("count", 1.0, "a whole number, not 1.0"), ("count", True, "a whole"),
                              ("share", "1", "a number"), ("share", False, "a number"),
                              ("name", 7, "a string"), ("on", 1, "true or false"),
                              ("name", None, "a string"), ("masters", 7, "'host:port"),
                              ("masters", ["a:1", 2], "'host:port")):
        with pytest.raises(ValueError, match=f"moonpool: {name} must be {said}"):
            parse(**{name: value})


def test_an_unknown_name_is_said_with_the_nearest_or_with_all():
    with pytest.raises(ValueError, match="'shaer' in the file; did you mean 'share'?"):
        parse(shaer=1)
    with pytest.raises(ValueError, match="'zzz' in the file; there are masters, count, share"):
        parse(zzz=1)


@ADAPTERS
def test_masters_are_a_string_a_list_or_the_environments(options, monkeypatch):
    monkeypatch.delenv("MOONPOOL_MASTER", raising=False)
    for nothing in ({}, {"masters": None}, {"masters": ""}, {"masters": " ,"}, {"masters": []}):
        with pytest.raises(ValueError, match="names no masters.*MOONPOOL_MASTER"):
            parsed(options, nothing)
    for given in ("a:1, b:2", ["a:1", " b:2"], ("a:1", "b:2")):
        assert parsed(options, {"masters": given}).masters == ("a:1", "b:2")
    monkeypatch.setenv("MOONPOOL_MASTER", "c:3,d:4")
    assert parsed(options, {}).masters == parsed(options, {"masters": ""}).masters == (
        "c:3", "d:4")
    assert parsed(options, {"masters": "a:1"}).masters == ("a:1",)


@ENGINES
@pytest.mark.parametrize("wrong", [
    {"hold": -1}, {"pause_first": 0}, {"pause_first": 2, "pause_longest": 1},
])
def test_what_adapters_share_is_checked_for_all(options, wrong):
    with pytest.raises(ValueError, match=f"moonpool: {next(iter(wrong))} must be "):
        options.parse({"masters": "a:1"} | wrong)


@ADAPTERS
@pytest.mark.parametrize("wrong", [
    {"path": "rdma"}, {"replicas": 0}, {"tcp_streams": 0}, {"tcp_streams": 65},
    {"namespace": "two words"}, {"namespace": "caf\u00e9"}, {"namespace": "n" * 256},
    {"namespace": "n\n"}, {"masters": "a"}, {"masters": "a:1,b"}, {"masters": ["a:65536"]},
    {"masters": "http://a"},
])
def test_what_is_a_clients_is_checked_for_all(options, wrong):
    with pytest.raises(ValueError, match=f"moonpool: {next(iter(wrong))} must be "):
        parsed(options, {"masters": "a:1"} | wrong)


@pytest.mark.parametrize("name", ["n", "a/b.c_d-e:f@g+h", "n" * 254, "n" * 255, "n" * 256, "", "a b",
                                  "\u00e9", "n\n", "a\x1fb", "a\\b", "A~"])
def test_namespaces_are_judged_as_the_client_judges_them(name):
    # Without a fingerprint: what the client refuses before it asks anybody.
    is_refused = False
    try:
        moonpool.Client("127.0.0.1:1", namespace=name, timeout=0.001).close()
    except moonpool.InvalidArgument:
        is_refused = True
    except moonpool.MoonpoolError:
        pass
    assert is_refused is not _names.is_namespace(name)


def test_the_longest_names_that_vllms_options_give_are_taken():
    layout = Layout({"model": "m" * 99, "dtype": "fp8_e4m3_of_some_kind", "page_tokens": 1048576})
    name = layout.namespace(OfVllm.parse({"masters": "a:1", "namespace": "n" * 100}).namespace)
    assert len(name) + len(moonpool.fingerprint(**layout.fingerprint_fields())) <= 254


def test_lmcaches_fingerprint_is_a_text_or_a_mapping_and_required():
    given = {"masters": "a:1", "fingerprint": {"dtype": "bf16", "tp": 2}}
    assert OfLmcache.parse(given).fingerprint == "dtype=bf16;tp=2"
    for nothing in ({}, {"fingerprint": None}, {"fingerprint": ""}, {"fingerprint": {}}):
        with pytest.raises(ValueError, match="adapter_params has no fingerprint: name what makes"):
            OfLmcache.parse({"masters": "a:1"} | nothing)
    with pytest.raises(ValueError, match="'fingerprnt' in adapter_params; did you mean 'fingerp"):
        OfLmcache.parse({"masters": "a:1", "fingerprnt": "f"})
    for wrong in ({"fingerprint": 7}, {"threads": 0}, {"threads": 257}, {"queue": 0},
                  {"load_timeout": 0}, {"store_timeout": -1}):
        with pytest.raises(ValueError, match=f"moonpool: {next(iter(wrong))} must be "):
            OfLmcache.parse({"masters": "a:1", "fingerprint": "f"} | wrong)


@ENGINES
def test_what_means_the_same_has_one_name(options):
    names = {field.name for field in fields(options)}
    assert names >= {"masters", "namespace", "model", "revision", "tag", "replicas", "hold", "path",
                     "verify", "tcp_streams", "lookup_timeout", "pause_first", "pause_longest"}
