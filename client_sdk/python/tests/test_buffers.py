"""What is no value, or no place for one: refused, before a byte of it is looked at."""

import ctypes

import moonpool
import numpy
import pytest


class FakeStorage:
    def __init__(self, address, nbytes):
        self.address, self.size = address, nbytes

    def data_ptr(self):
        return self.address

    def nbytes(self):
        return self.size


class FakeTensor:
    """What the binding asks of a torch tensor of bytes."""

    device = type("device", (), {"type": "cpu"})

    def __init__(self, array, lazy="", count=None, storage_bytes=None, item_bytes=1):
        self.array, self.lazy, self.item_bytes = array, lazy, item_bytes
        self.count = array.size if count is None else count
        self.storage_bytes = array.nbytes if storage_bytes is None else storage_bytes

    def data_ptr(self):
        return self.array.ctypes.data if self.storage_bytes else 0

    def numel(self):
        return self.count

    def element_size(self):
        return self.item_bytes

    def is_contiguous(self):
        return True

    def is_conj(self):
        return self.lazy == "conj"

    def is_neg(self):
        return self.lazy == "neg"

    def untyped_storage(self):
        return FakeStorage(self.data_ptr(), self.storage_bytes)


@pytest.mark.parametrize("lazy", ["conj", "neg"])
def test_lazy_views_of_torch_are_not_what_is_in_memory(client, lazy):
    tensor = FakeTensor(numpy.zeros(8, numpy.uint8), lazy)
    with pytest.raises(BufferError, match=rf"is_{lazy}\(\).*pass tensor.resolve_{lazy}\(\)"):
        client.put("k", tensor)
    client.put("k", b"12345678")
    # What resolve_conj() makes would be read into, and thrown away.
    with pytest.raises(BufferError, match="read into another"):
        client.get_into("k", tensor)
    assert not tensor.array.any()


@pytest.mark.parametrize("shape", [
    {"storage_bytes": 0}, {"storage_bytes": 7}, {"count": 2**61, "item_bytes": 16},
    {"count": 2**64 - 1}])
def test_tensors_whose_memory_is_not_there(client, shape):
    tensor = FakeTensor(numpy.zeros(8, numpy.uint8), **shape)
    client.put("k", b"12345678")
    for use in (lambda: client.put("l", tensor), lambda: client.get_into("k", tensor)):
        with pytest.raises(BufferError, match="memory is not there"):
            use()


def test_a_tensor_may_be_a_part_of_its_storage_or_empty(client):
    array = numpy.frombuffer(b"0123456789", numpy.uint8)
    part = FakeTensor(array[4:])
    part.untyped_storage = lambda: FakeStorage(array.ctypes.data, 10)
    assert client.put("part", part) and client.get("part") == b"456789"
    empty = FakeTensor(numpy.zeros(0, numpy.uint8), storage_bytes=0)
    assert client.put("empty", empty) and client.get("empty") == b""


class Linked(ctypes.Structure):
    _fields_ = [("number", ctypes.c_int), ("name", ctypes.c_char_p)]


@pytest.mark.parametrize("array", [
    numpy.array(["a", None], dtype=object),
    numpy.zeros(2, [("n", "i4"), ("o", object)]),
    numpy.zeros(2, [("day", "M8[D]"), ("o", object)]),  # of which numpy knows no format
    (ctypes.py_object * 2)(),
    (ctypes.c_char_p * 2)(),
    (ctypes.POINTER(ctypes.c_int) * 2)(),
    (Linked * 2)(),
], ids=str)
def test_objects_and_pointers_mean_nothing_elsewhere(client, array):
    client.put("k", bytes(64))
    for use in (lambda: client.put("l", array), lambda: client.get_into("k", array)):
        with pytest.raises(BufferError, match="Python objects or pointers"):
            use()


@pytest.mark.parametrize("array", [
    numpy.arange(6, dtype=numpy.complex128).reshape(2, 3),
    numpy.array(["2026-01-01"], "M8[D]"),
    numpy.zeros(2, [("Oh, &X", "i4"), ("Z", "c8"), ("v", "V3", (2,))]),
    numpy.float32(1).reshape(()),
    (ctypes.c_char * 4)(),
    memoryview(b"12345678").cast("d"),
], ids=str)
def test_all_other_formats_are_bytes(client, array):
    client.put("k", array)
    assert client.get("k") == bytes(memoryview(array).cast("B")) if isinstance(
        array, memoryview) else client.get("k") == numpy.asarray(array).tobytes()


def test_sizes_that_add_up_to_more_than_there_can_be(client):
    huge = moonpool.Memory(4096, 2**62)
    client.put("k", b"1")
    for use in (lambda: client.put("l", [huge] * 4), lambda: client.get_into("k", [huge] * 4)):
        with pytest.raises(moonpool.InvalidArgument, match="add up to more"):
            use()
