"""What is let go: cycles through native objects, what each method allocates, and C++'s own memory."""

import ctypes
import gc
import os
import sys
import tracemalloc
import weakref

import moonpool
import numpy
import pytest
from process import run

CALLS = 200
ROUNDS = 4
# AddressSanitizer names the module of each frame, also where it knows the line.
MODULES = ':stack_trace_format="    #%n %F %S %M"'


class Owner:
    """Has what calls it, or what keeps it."""

    def say(self, line):
        pass


def owner_of_a_client(pool):
    owner = Owner()
    owner.has = moonpool.Client(pool.master, on_warning=owner.say)
    return owner


def owner_of_a_connector(pool):
    owner = Owner()
    owner.has = moonpool._native.Connector(masters=[pool.master], on_warning=owner.say)
    return owner


def owner_of_memory(pool):
    owner = Owner()
    owner.bytes = bytearray(8)
    address = ctypes.addressof(ctypes.c_char.from_buffer(owner.bytes))
    owner.has = moonpool.Memory(address, 8, owner=owner)
    return owner


def owner_of_a_match(pool):
    """The error has a traceback, that the frame, and that the match."""
    owner = Owner()
    with moonpool.Client(pool.master) as client:
        owner.has = client.match_prefix(["absent"])
    try:
        raise owner.has.miss
    except moonpool.Miss:
        return owner


@pytest.mark.parametrize("make", [owner_of_a_client, owner_of_a_connector, owner_of_memory,
                                  owner_of_a_match])
def test_the_collector_sees_cycles_through_native_objects(pool, make):
    owner = make(pool)
    ends = [weakref.ref(owner), weakref.ref(owner.has)]
    gc.collect()
    assert all(end() is not None for end in ends)
    del owner
    gc.collect()
    assert [end() for end in ends] == [None, None]


def test_objects_without_an_init_are_collected():
    for kind in (moonpool.Client, moonpool._native.Connector, moonpool.Memory):
        kind.__new__(kind)
    gc.collect()


def methods(client, connector):
    """Each does one call of the method that it is named by, well or not."""
    small = numpy.ones(64, numpy.uint8)
    large = numpy.ones(40000, numpy.uint8)  # made by Python while it is read (kScratchBytes)
    into = numpy.empty(64, numpy.uint8)
    client.put("small", small)
    client.put("large", large)
    pair = ["small", "absent"]

    def fails(call, *arguments, **options):
        try:
            call(*arguments, **options)
        except (moonpool.MoonpoolError, TypeError):
            return
        raise AssertionError("it did not fail")

    def view():
        with client.get_view("small") as held:
            bytes(held.pieces[0])

    def batch(submit, *arguments):
        submit(*arguments)
        while not connector.drain_completions():
            pass

    return {
        "put": lambda: client.put("small", small, parent="p"),
        "put_many": lambda: client.put_many(pair[:1], [[small, small]], parents=["p"]),
        "get": lambda: client.get("small"),
        "get large": lambda: client.get("large"),
        "get absent": lambda: fails(client.get, "absent"),
        "get wrong": lambda: fails(client.get, 7, nothing=8),
        "get_many": lambda: client.get_many(["small", "large", "absent"]),
        "get_into": lambda: client.get_into("small", [into]),
        "get_into short": lambda: fails(client.get_into, "large", into),
        "get_into_many": lambda: client.get_into_many(pair, [into, into]),
        "get_view": view,
        "get_view_many": lambda: client.get_view_many(pair),
        "exists": lambda: client.exists("small", timeout=5, cancel=moonpool.CancelSource()),
        "exists_many": lambda: client.exists_many(pair),
        "match_prefix": lambda: repr(client.match_prefix(pair).sizes),
        "describe": lambda: repr(client.describe("small").replicas),
        "describe_many": lambda: client.describe_many(pair),
        "list_keys": lambda: client.list_keys().keys,
        "remove": lambda: client.remove("absent"),
        "remove_many": lambda: client.remove_many(["absent", ""]),
        "stats": client.stats,
        "properties": lambda: (client.closed, client.namespace, client.masters),
        "Client": lambda: fails(moonpool._native.Client, masters=["no address"], on_warning=print),
        "Memory": lambda: memoryview(moonpool.Memory(small.ctypes.data, 8, owner=small)),
        "HostBuffer": lambda: memoryview(moonpool.HostBuffer(64)),
        "submit_batch_set": lambda: batch(connector.submit_batch_set, ["small"], [small]),
        "submit_batch_get": lambda: batch(connector.submit_batch_get, ["small"], [into]),
        "submit_batch_exists": lambda: batch(connector.submit_batch_exists, pair),
        "submit_batch_delete": lambda: batch(connector.submit_batch_delete, ["absent"]),
        "connector's stats": connector.stats,
    }


def keeps(call):
    """Whether each call leaves an object: (blocks, bytes) that CALLS calls left, or None.

    Blocks are Python's small objects, bytes all that it allocates. What caches and other threads
    take comes once; what each call leaves comes every time.
    """
    grown = None
    for _ in range(ROUNDS):
        gc.collect()
        tracemalloc.start()
        blocks = sys.getallocatedblocks()
        for _ in range(CALLS):
            call()
        gc.collect()
        grown = sys.getallocatedblocks() - blocks, tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        if grown[0] < CALLS // 2 and grown[1] < CALLS * 16:
            return None
    return grown


def test_no_method_keeps_anything(client, pool):
    connector = moonpool._native.Connector(masters=[pool.master], namespace=client.namespace)
    kept = {name: grown for name, call in methods(client, connector).items()
            if (grown := keeps(call))}
    connector.close()
    assert kept == {}


def test_the_native_module_leaks_nothing(pool):
    """AddressSanitizer's view of what C++ allocated: by the end, nothing that nobody has."""
    if not hasattr(ctypes.CDLL(None), "__lsan_do_recoverable_leak_check"):
        pytest.skip("needs AddressSanitizer's runtime: the preset asan")
    # Python's allocator would hide what its objects have, and what it has itself is its own affair.
    done = run(pool, f"""
        import ctypes, gc
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from test_memory_use import methods
        client = moonpool.Client(master, namespace="lsan", fingerprint="t")
        connector = moonpool._native.Connector(masters=[master], namespace="lsan")
        for call in methods(client, connector).values():
            call()
        del client, connector, call
        gc.collect()
        ctypes.CDLL(None).__lsan_do_recoverable_leak_check()
    """, PYTHONMALLOC="malloc", ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + MODULES)
    assert "_native" not in done.stderr, done.stderr  # the report's stacks
