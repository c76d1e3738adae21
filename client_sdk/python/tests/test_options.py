"""What the adapters of all engines make of the options that they are given: moonpool._options."""

from dataclasses import dataclass, fields

import pytest

from moonpool import _options
from moonpool.sglang.options import Options as OfSglang
from moonpool.vllm.options import Options as OfVllm

ADAPTERS = pytest.mark.parametrize("options", [OfSglang, OfVllm])


@dataclass(frozen=True)
class Example:
    masters: tuple[str, ...] = ()
    count: int = 1
    share: float = 0.5
    name: str = ""
    on: bool = False


def parse(**given):
    return _options.parse(Example, {"masters": "a:1"} | given, "the file")


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
            options.parse(nothing)
    for given in ("a:1, b:2", ["a:1", " b:2"], ("a:1", "b:2")):
        assert options.parse({"masters": given}).masters == ("a:1", "b:2")
    monkeypatch.setenv("MOONPOOL_MASTER", "c:3,d:4")
    assert options.parse({}).masters == options.parse({"masters": ""}).masters == ("c:3", "d:4")
    assert options.parse({"masters": "a:1"}).masters == ("a:1",)


@ADAPTERS
@pytest.mark.parametrize("wrong", [
    {"path": "rdma"}, {"hold": -1}, {"replicas": 0}, {"tcp_streams": 0}, {"pause_first": 0},
    {"pause_first": 2, "pause_longest": 1},
])
def test_what_all_have_is_checked_for_all(options, wrong):
    with pytest.raises(ValueError, match=f"moonpool: {next(iter(wrong))} must be "):
        options.parse({"masters": "a:1"} | wrong)


@ADAPTERS
def test_what_means_the_same_has_one_name(options):
    names = {field.name for field in fields(options)}
    assert names >= {"masters", "namespace", "model", "revision", "tag", "replicas", "hold", "path",
                     "verify", "tcp_streams", "lookup_timeout", "pause_first", "pause_longest"}
