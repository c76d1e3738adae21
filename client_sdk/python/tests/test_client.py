"""What every method returns and raises."""

import inspect
import threading

import moonpool
import numpy
import pytest


def test_bytes_come_back_as_they_were_put(client):
    assert client.put("a", b"alpha") is True
    assert client.put("a", b"other") is False
    assert client.get("a") == b"alpha"
    assert client.put("empty", b"") and client.get("empty") == b""


def test_keys_are_text_or_bytes(client):
    client.put("schl\u00fcssel", b"1")
    assert client.get("schl\u00fcssel".encode()) == b"1"
    client.put(b"\xff\x00", b"2")
    assert client.get(b"\xff\x00") == b"2"
    for wrong in (1, None, ["a"]):
        with pytest.raises(TypeError, match="a key is str or bytes"):
            client.get(wrong)
    for wrong in ("text", b"bytes", 7):
        with pytest.raises(TypeError, match="sequence of keys"):
            client.get_many(wrong)


def test_a_miss_says_why(client):
    with pytest.raises(moonpool.Miss) as caught:
        client.get("never")
    error = caught.value
    assert isinstance(error, KeyError)
    assert (error.code, error.reason, error.key) == ("NOT_FOUND", "NEVER_STORED", "never")
    client.put("k", b"1")
    assert client.remove("k") is True
    assert client.remove("k") is False
    with pytest.raises(moonpool.Miss) as caught:
        client.get("k")
    assert caught.value.reason == "REMOVED"


def test_batches_say_what_became_of_each(client):
    put = client.put_many(["a", "b", "a", ""], [b"1", b"2", b"3", b"4"])
    assert put[:2] == [True, True]
    assert [error.reason for error in put[2:]] == ["DUPLICATE_KEY", "KEY_EMPTY"]
    got = client.get_many(["b", "x", "a", "b"])
    assert got[0] == got[3] == b"2" and got[2] == b"1"
    assert isinstance(got[1], moonpool.Miss) and got[1].key == "x"
    assert client.exists_many(["a", "x"]) == [True, False]
    assert client.remove_many(["a", "x"]) == [True, False]
    assert client.put_many([], []) == client.get_many([]) == []


def test_wrong_usage_is_raised(client):
    with pytest.raises(moonpool.InvalidArgument, match="2 keys, but 1 values"):
        client.put_many(["a", "b"], [b"1"])
    with pytest.raises(moonpool.InvalidArgument, match="1 keys, but 2 parents"):
        client.put_many(["a"], [b"1"], parents=["x", "y"])
    for timeout in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="timeout is not positive"):
            client.get("a", timeout=timeout)
    with pytest.raises(ValueError, match="hold is negative"):
        client.match_prefix(["a"], hold=-1)
    with pytest.raises(TypeError, match="encode text first"):
        client.put("a", "text")
    with pytest.raises(TypeError, match="or a list of these"):
        client.put("a", 5)


def test_arrays_go_in_and_out_as_they_are(client):
    array = numpy.arange(300_000, dtype=numpy.float32).reshape(3, -1)
    client.put("array", array)
    into = numpy.empty_like(array)
    assert client.get_into("array", into) == array.nbytes
    assert (into == array).all()
    with pytest.raises(ValueError, match="not C-contiguous"):
        client.put("t", array.T)
    with pytest.raises(ValueError, match="not C-contiguous"):
        client.get_into("array", into.T)


def test_pieces_are_one_value(client):
    client.put("parts", [b"ab", bytearray(b"cde"), numpy.frombuffer(b"fg", numpy.uint8)])
    first, rest = bytearray(3), bytearray(10)
    assert client.get_into("parts", (first, memoryview(rest)[2:])) == 7
    assert bytes(first) == b"abc" and bytes(rest) == b"\0\0defg\0\0\0\0"


def test_a_target_must_be_large_and_writable(client):
    client.put("k", b"12345")
    small = bytearray(4)
    with pytest.raises(moonpool.InvalidArgument) as caught:
        client.get_into("k", small)
    assert caught.value.reason == "BUFFER_TOO_SHORT" and bytes(small) == bytes(4)
    with pytest.raises(BufferError):
        client.get_into("k", bytes(5))
    results = client.get_into_many(["k", "x", "k"], [bytearray(9), bytearray(9), bytearray(1)])
    assert results[0] == 5 and results[1].reason == "NEVER_STORED"
    assert results[2].reason == "BUFFER_TOO_SHORT"


def test_memory_by_address(client):
    array = numpy.arange(1000, dtype=numpy.uint8)
    memory = moonpool.Memory(array.ctypes.data, 500, owner=array)
    client.put("head", memory)
    assert client.get("head") == array[:500].tobytes()
    with pytest.raises(BufferError):
        client.get_into("head", moonpool.Memory(array.ctypes.data, 500, writable=False))
    with pytest.raises(moonpool.InvalidArgument):
        moonpool.Memory(0, 1)
    for address, nbytes in ((2**64 - 1, 2), (1, 2**63)):
        with pytest.raises(moonpool.InvalidArgument):
            moonpool.Memory(address, nbytes)


def test_host_buffers_are_pages(client):
    buffer = moonpool.HostBuffer(10_000)
    assert buffer.address % 4096 == 0 and len(buffer) == 10_000
    client.put("k", b"x" * 10_000)
    assert client.get_into("k", buffer) == 10_000
    view = numpy.frombuffer(buffer, numpy.uint8)
    del buffer
    assert view.tobytes() == b"x" * 10_000
    for wrong in (0, 2**64 - 1):
        with pytest.raises(moonpool.InvalidArgument):
            moonpool.HostBuffer(wrong)
    with pytest.raises(moonpool.ResourceExhausted, match="cannot map"):
        moonpool.HostBuffer(1 << 60)
    with pytest.raises(moonpool.InvalidArgument, match="numa_node"):
        moonpool.HostBuffer(4096, numa_node=64)


class FakeTensor:
    """What the binding asks of a torch tensor."""

    def __init__(self, array, device="cpu", contiguous=True):
        self.array, self.contiguous = array, contiguous
        self.device = type("device", (), {"type": device})

    def data_ptr(self):
        return self.array.ctypes.data

    def numel(self):
        return self.array.size

    def element_size(self):
        return self.array.itemsize

    def is_contiguous(self):
        return self.contiguous


def test_tensors_of_torch(client):
    tensor = FakeTensor(numpy.arange(100, dtype=numpy.uint16))
    client.put("t", tensor)
    into = FakeTensor(numpy.zeros(100, numpy.uint16))
    assert client.get_into("t", into) == 200
    assert (into.array == tensor.array).all()
    with pytest.raises(BufferError, match="contiguous"):
        client.put("u", FakeTensor(tensor.array, contiguous=False))
    with pytest.raises(moonpool.FailedPrecondition, match="cuda device"):
        client.put("u", FakeTensor(tensor.array, device="cuda"))


def test_views_show_the_pool_itself(client):
    client.put("k", b"value")
    with client.get_view("k") as view:
        assert view.valid and len(view) == view.nbytes == 5
        (piece,) = view.pieces
        assert bytes(piece) == b"value" and piece.readonly
    assert not view.valid
    assert bytes(piece) == b"value"  # the pin lasts as long as the memoryview
    with pytest.raises(moonpool.InvalidArgument, match="released"):
        _ = view.pieces
    with pytest.raises(moonpool.Miss):
        client.get_view("x")
    with pytest.raises(moonpool.InvalidArgument):
        raise client.get_view_many(["k"] * 20_000)[0]
    views = client.get_view_many(["k", "x"])
    assert bytes(views[0].pieces[0]) == b"value" and views[1].reason == "NEVER_STORED"


def test_prefixes(client):
    client.put_many(["p0", "p1", "p2"], [b"1", b"22", b"333"], parents=["", "p0", "p1"])
    match = client.match_prefix(["p0", "p1", "p2", "p3"], hold=1.0)
    assert (match.matched, match.sizes) == (3, [1, 2, 3]) and match.held > 0
    assert match.miss.reason == "NEVER_STORED" and match.miss.key == "p3"
    whole = client.match_prefix(["p0"])
    assert whole.matched == 1 and whole.miss is None and whole.held == 0
    assert client.match_prefix([]).matched == 0


def test_a_cancelled_call_ends(client):
    cancel = moonpool.CancelSource()
    cancel.cancel()
    with pytest.raises(moonpool.Cancelled):
        client.put("k", b"1", cancel=cancel)


def test_a_call_that_was_cancelled_before_it_began_does_nothing(client):
    client.put("k", b"1")
    into = bytearray(1)
    cancel = moonpool.CancelSource()
    cancel.cancel()
    for call in (lambda: client.get("k", cancel=cancel), lambda: client.exists("k", cancel=cancel),
                 lambda: client.get_into("k", into, cancel=cancel),
                 lambda: client.get_view("k", cancel=cancel)):
        with pytest.raises(moonpool.Cancelled):
            call()
    assert into == b"\0"


def test_options_are_checked(pool):
    for wrong in (5, 0, "print"):
        with pytest.raises(TypeError, match="on_warning cannot be"):
            moonpool.Client(pool.master, on_warning=wrong)
    with pytest.raises(TypeError, match="namespace cannot be int"):
        moonpool.Client(pool.master, namespace=1)
    with pytest.raises(TypeError, match="masters cannot be int"):
        moonpool.Client([1])
    for text in ({"namespace": "a\udc80"}, {"fingerprint": "\udc80"}, {"masters": ["\udc80:1"]}):
        with pytest.raises(UnicodeEncodeError):
            moonpool.Client(**{"masters": pool.master} | text)
    with pytest.raises(TypeError, match="cancel is no CancelSource"):
        moonpool.Client(pool.master, cancel=1)
    cancel = moonpool.CancelSource()
    cancel.cancel()
    with pytest.raises(moonpool.Cancelled):
        moonpool.Client(pool.master, cancel=cancel)
    with pytest.raises(moonpool.InvalidArgument, match="not host:port"):
        moonpool.Client("nonsense")
    with pytest.raises(moonpool.InvalidArgument, match="names no master"):
        moonpool.Client([])
    with pytest.raises(moonpool.InvalidArgument, match="path"):
        moonpool.Client(pool.master, path="pigeon")
    with pytest.raises(moonpool.InvalidArgument, match="timeout"):
        moonpool.Client(pool.master, timeout=0)
    with pytest.raises(moonpool.Miss) as caught:
        moonpool.Client(pool.master, namespace="absent-namespace")
    assert caught.value.reason == "NAMESPACE_UNKNOWN"
    moonpool.Client(pool.master, namespace="fp", fingerprint="one").close()
    with pytest.raises(moonpool.FailedPrecondition) as caught:
        moonpool.Client(pool.master, namespace="fp", fingerprint="two")
    assert caught.value.reason == "FINGERPRINT_MISMATCH"


def test_the_environment_names_the_master(pool, monkeypatch):
    monkeypatch.delenv("MOONPOOL_MASTER", raising=False)
    with pytest.raises(moonpool.InvalidArgument, match="MOONPOOL_MASTER"):
        moonpool.Client()
    monkeypatch.setenv("MOONPOOL_MASTER", f" {pool.master}, ")
    with moonpool.Client() as client:
        assert client.masters == (pool.master,)
        assert client.exists("k") is False


def test_no_master_is_unavailable():
    with pytest.raises(moonpool.Unavailable) as caught:
        moonpool.Client("127.0.0.1:1", wait_for_master=False)
    assert isinstance(caught.value, ConnectionError)


def test_a_client_that_was_never_made_is_a_type_error():
    with pytest.raises(TypeError, match="__init__"):
        moonpool.Client.__new__(moonpool.Client).get("k")
    half = moonpool.Client.__new__(moonpool.Client)
    for use in (lambda: half.closed, lambda: half.stats(), lambda: half.close(), lambda: repr(half),
                lambda: half.get("k")):
        with pytest.raises(TypeError, match="__init__"):
            use()
    with pytest.raises(TypeError):
        moonpool.Client.get(object(), "k")

    class Odd(moonpool.HostBuffer, moonpool.Client):
        def __init__(self):
            moonpool.HostBuffer.__init__(self, 4096)

    with pytest.raises(TypeError):
        Odd().get("k")


def test_arguments_are_sorted_as_pythons_own(client):
    client.put(value=b"1", key="k")
    assert client.get(key="k", timeout=None, verify=False) == b"1"
    for wrong, words in [
        (lambda: client.get(), "missing required argument: 'key'"),
        (lambda: client.get("k", "l"), "takes 1 positional argument"),
        (lambda: client.get("k", key="k"), "multiple values for argument 'key'"),
        (lambda: client.get("k", nonsense=1), "unexpected keyword argument 'nonsense'"),
        (lambda: client.put("k", b"", replicas="two"), "integer"),
        (lambda: client.get("k", cancel=1), "CancelSource"),
    ]:
        with pytest.raises(TypeError, match=words):
            wrong()
    with pytest.raises(OverflowError):
        client.put("k", b"", replicas=1 << 32)
    assert str(inspect.signature(moonpool.Client.get)) == (
        "(self, /, key, *, verify=None, timeout=None, cancel=None)")


def test_a_closed_client_says_so(pool):
    client = moonpool.Client(pool.master)
    with client:
        assert not client.closed
    client.close()
    assert client.closed and "closed" in repr(client)
    with pytest.raises(moonpool.FailedPrecondition, match="closed"):
        client.get("k")


def test_closing_leaves_calls_under_way_alone(pool):
    client = moonpool.Client(pool.master, namespace="closing", fingerprint="test")
    data = numpy.zeros(1 << 20, numpy.uint8)
    client.put("k", data)
    outcomes = []

    def read():
        into = numpy.empty_like(data)
        try:
            while True:
                outcomes.append(client.get_into("k", into))
        except moonpool.FailedPrecondition:
            pass

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(outcomes) < 100:
        assert any(thread.is_alive() for thread in threads)
    client.close()
    for thread in threads:
        thread.join()
    assert set(outcomes) == {1 << 20}


def test_stats_count(client):
    client.put("k", b"12")
    client.get("k")
    stats = client.stats()
    assert (stats["puts"], stats["gets"], stats["hits"], stats["get_bytes"]) == (1, 1, 1, 2)
