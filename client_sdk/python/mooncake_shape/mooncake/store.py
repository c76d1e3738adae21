"""``mooncake.store`` on Moonpool.

::

    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore()
    store.setup("localhost", "P2PHANDSHAKE", 0, 0, "tcp", "", "127.0.0.1:7400")   # 0
    store.put("key", b"value")                                                    # 0
    store.get("key")                                                              # b"value"

Numbers and names are Mooncake's; what stores the bytes is a running Moonpool, whose master is given
as the master's address. docs/MOONCAKE.md says what differs.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import moonpool
from mooncake._codes import ErrorCode, code_of
from mooncake._memory import (
    SIZE_END,
    BufferHandle,
    MooncakeHostMemAllocator,
    RegisteredBuffers,
    is_region,
)
from mooncake._patience import handed_over, is_called_by_lmcaches_connector
from mooncake._pool import Pool
from mooncake._replicas import (
    BufferDescriptor,
    MemoryDescriptor,
    ObjectDataType,
    ReplicaDescriptor,
    ReplicaStatus,
    ReplicateConfig,
    SoftPinAction,
    replicas_of,
)
from mooncake._setup import Setup, arguments_by_name

__all__ = [
    "BufferDescriptor", "BufferHandle", "ErrorCode", "MemoryDescriptor",
    "MooncakeDistributedStore", "MooncakeHostMemAllocator", "ObjectDataType", "ReplicaDescriptor",
    "ReplicaStatus", "ReplicateConfig", "SoftPinAction",
]

_log = logging.getLogger("mooncake.store")

_BAD = int(ErrorCode.INVALID_PARAMS)
_CLOSED = int(ErrorCode.UNAVAILABLE_IN_CURRENT_STATUS)

# Said once per process.
_said: set[str] = set()


def _say_once(what: str, line: str, *args: object) -> None:
    if what not in _said:
        _said.add(what)
        _log.warning(line, *args)


class MooncakeDistributedStore:
    """A client of a Moonpool with the calls of Mooncake's. Thread-safe after ``setup``.

    Calls return numbers, and raise only for arguments of a wrong type. 0 is success, what is below
    it an ``ErrorCode``; before ``setup`` and after ``close`` -1010, b"" or None. When a call has
    returned nothing touches its buffers any more. For a caller that does not wait until then see
    docs/MOONCAKE.md on patience.

    Attributes:
        is_waited_for: Whether callers wait for the end of every call.
    """

    def __init__(self) -> None:
        self._pool: Pool | None = None
        self._hostname = ""
        self._has_short_reads = False
        self.is_waited_for = True
        self._registered = RegisteredBuffers()

    # --- Beginning and end.

    def setup(self, *args: Any, **kwargs: Any) -> int:
        """``setup(local_hostname, metadata_server, global_segment_size, local_buffer_size,
        protocol, rdma_devices, master_server_addr, engine=None, enable_ssd_offload=False,
        ssd_offload_path="", tenant_id="default", enable_client_http_server=False,
        client_http_port=9300)``, or ``setup(config)``, a dictionary with these names.

        Connects to the Moonpool whose master is named. What else is said of memory and transport is
        accepted and has no effect: the nodes own the memory. 0, -600 for what cannot be understood,
        or why the pool cannot be reached.

        RuntimeError instead of the number where LMCache's connector calls, which looks at none: it
        goes on without the pool, rather than with a store on which nothing can be found.
        """
        code = self._open(arguments_by_name(args, kwargs))
        if code != 0 and is_called_by_lmcaches_connector():
            raise RuntimeError(f"setup: {code}; the log mooncake.store says why")
        return code

    def setup_dummy(self, mem_pool_size: int, local_buffer_size: int, server_address: str) -> int:
        """As ``setup``; the address is that of Moonpool's master."""
        return self._open({"master_server_addr": server_address})

    def _open(self, config: Mapping[str, Any]) -> int:
        try:
            setup = Setup.of(config)
            client = setup.connect()
        except ValueError as error:  # InvalidArgument of the client, too
            _log.error("setup: %s", error)
            return code_of(error) if isinstance(error, moonpool.MoonpoolError) else _BAD
        except moonpool.MoonpoolError as error:
            _log.error("setup: %s", error)
            return code_of(error)
        if setup.segment_bytes > 0:
            _say_once("segment", "global_segment_size: the %d bytes stay with this process; the "
                      "pool's memory is that of its nodes (moonpool-node --dram)",
                      setup.segment_bytes)
        if not setup.fingerprint:
            _say_once("fingerprint", "no fingerprint: engines whose pages differ but are of one "
                      "size (bfloat16 and float16, other weights, another layout) get each other's "
                      "from namespace %s, and nobody notices. Set MOONPOOL_NAMESPACE and "
                      "MOONPOOL_FINGERPRINT, for instance llama-3-8b and "
                      "\"dtype=bfloat16;revision=main;page=64\", the same where pages are alike",
                      setup.namespace)
        self.close()
        self._hostname = setup.hostname
        self._has_short_reads = setup.short_reads
        self.is_waited_for = setup.patience.is_endless()
        self._pool = Pool(client, setup.timeout, setup.patience, setup.staging_bytes)
        return 0

    def close(self) -> int:
        """0, also when it was closed. Calls under way on other threads end as they would have."""
        pool, self._pool = self._pool, None
        self._registered.clear()
        if pool is not None:
            pool.close()
        return 0

    def health_check(self) -> int:
        """0: the pool answers. 1: not set up, or closed. 2: no master can be reached."""
        pool = self._pool
        if pool is None:
            return 1
        return 0 if pool.is_reachable() else 2

    def get_hostname(self) -> str:
        """What ``setup`` was given."""
        return self._hostname

    def register_buffer(self, buffer_ptr: int, size: int) -> int:
        """0, or -600: no region, overlapping one that is registered, or no host memory.

        A Moonpool's client needs no registration: this checks what the transfers will rely on.
        """
        return 0 if self._registered.add(buffer_ptr, size) else _BAD

    def unregister_buffer(self, buffer_ptr: int) -> int:
        """0, or -600 when none is registered at that address."""
        return 0 if self._registered.remove(buffer_ptr) else _BAD

    # --- Writing.

    @handed_over
    def put(self, key: str, value: Any, config: ReplicateConfig | None = None) -> int:
        """Stores a buffer's bytes; 0 also when the key was there before."""
        return self._put([key], [value], config)[0]

    @handed_over
    def put_parts(self, key: str, *parts: Any, config: ReplicateConfig | None = None) -> int:
        """Stores the concatenation of buffers."""
        return self._put([key], [list(parts)], config)[0]

    @handed_over
    def put_batch(self, keys: Sequence[str], values: Sequence[Any],
                  config: ReplicateConfig | None = None) -> int:
        """``put`` of many: 0, or the first number that is not."""
        if len(keys) != len(values):
            return _BAD
        return next((code for code in self._put(keys, values, config) if code != 0), 0)

    @handed_over
    def put_from(self, key: str, buffer_ptr: int, size: int,
                 config: ReplicateConfig | None = None) -> int:
        """Stores ``size`` bytes at an address."""
        return self.batch_put_from([key], [buffer_ptr], [size], config)[0]

    @handed_over
    def batch_put_from(self, keys: Sequence[str], buffer_ptrs: Sequence[int], sizes: Sequence[int],
                       config: ReplicateConfig | None = None) -> list[int]:
        """``put_from`` of many, in one call to the master."""
        if not len(keys) == len(buffer_ptrs) == len(sizes):
            return [_BAD] * len(keys)
        return self._put_memory(keys, [[ptr] for ptr in buffer_ptrs], [[size] for size in sizes],
                                config)

    @handed_over
    def batch_put_from_multi_buffers(
            self, keys: Sequence[str], all_buffer_ptrs: Sequence[Sequence[int]],
            all_sizes: Sequence[Sequence[int]],
            config: ReplicateConfig | None = None) -> list[int]:
        """Stores under each key the concatenation of the bytes at several addresses."""
        if not len(keys) == len(all_buffer_ptrs) == len(all_sizes):
            return [_BAD] * len(keys)
        return self._put_memory(keys, all_buffer_ptrs, all_sizes, config, is_multi=True)

    def _put_memory(self, keys: Sequence[str], ptrs: Sequence[Sequence[int]],
                    sizes: Sequence[Sequence[int]], config: ReplicateConfig | None,
                    is_multi: bool = False) -> list[int]:
        values = [_memory(*value, writable=False) for value in zip(ptrs, sizes)]
        return self._put(keys, values, config, is_multi)

    def _put(self, keys: Sequence[str], values: Sequence[Any], config: ReplicateConfig | None,
             is_multi: bool = False) -> list[int]:
        config = config or ReplicateConfig()
        is_refused = (config.replica_num < 1
                      or (config.prefer_alloc_in_same_node and not is_multi)
                      or (config.group_ids is not None and len(config.group_ids) != len(keys)))
        if is_refused:
            return [_BAD] * len(keys)
        if config.is_pinned():
            _say_once("pin", "ReplicateConfig asks for a pin: a Moonpool has none, and evicts what "
                      "has not been read for long")
        pool = self._pool
        if pool is None:
            return [_CLOSED] * len(keys)
        return _where_there_is_memory(values, lambda given: pool.put(
            [keys[i] for i in given], [values[i] for i in given], config.replica_num))

    # --- Reading.

    def get(self, key: str) -> bytes:
        """The object, or b""."""
        return self.get_batch([key])[0]

    def get_batch(self, keys: Sequence[str]) -> list[bytes]:
        """``get`` of many."""
        pool = self._pool
        values = [None] * len(keys) if pool is None else pool.get(keys)
        return [b"" if value is None else value for value in values]

    def get_buffer(self, key: str) -> BufferHandle | None:
        """The object in memory of its own, or None."""
        return self.batch_get_buffer([key])[0]

    def batch_get_buffer(self, keys: Sequence[str]) -> list[BufferHandle | None]:
        """``get_buffer`` of many."""
        pool = self._pool
        return [None] * len(keys) if pool is None else pool.get_buffers(keys)

    @handed_over
    def get_into(self, key: str, buffer_ptr: int, size: int) -> int:
        """Reads the object to an address; the bytes read.

        -600: it is larger than ``size``. -800: it is smaller, and the store has no ``short_reads``;
        it is another one than was meant, and part of the memory was not written.
        """
        return self.batch_get_into([key], [buffer_ptr], [size])[0]

    @handed_over
    def batch_get_into(self, keys: Sequence[str], buffer_ptrs: Sequence[int],
                       sizes: Sequence[int]) -> list[int]:
        """``get_into`` of many. A key may stand more than once: each buffer is filled."""
        if not len(keys) == len(buffer_ptrs) == len(sizes):
            return [_BAD] * len(keys)
        return self._get_memory(keys, [[ptr] for ptr in buffer_ptrs], [[size] for size in sizes],
                                self._has_short_reads)

    @handed_over
    def batch_get_into_multi_buffers(
            self, keys: Sequence[str], all_buffer_ptrs: Sequence[Sequence[int]],
            all_sizes: Sequence[Sequence[int]],
            prefer_alloc_in_same_node: bool = False) -> list[int]:
        """Reads each object to several addresses, in order.

        -800 when the object has fewer bytes than these take, also with ``short_reads``.
        """
        if not len(keys) == len(all_buffer_ptrs) == len(all_sizes):
            return [_BAD] * len(keys)
        return self._get_memory(keys, all_buffer_ptrs, all_sizes)

    def _get_memory(self, keys: Sequence[str], ptrs: Sequence[Sequence[int]],
                    sizes: Sequence[Sequence[int]], may_be_short: bool = False) -> list[int]:
        pool = self._pool
        if pool is None:
            return [_CLOSED] * len(keys)
        targets = [_memory(*target, writable=True) for target in zip(ptrs, sizes)]

        def get(given: list[int]) -> list[int]:
            asked, into = [keys[i] for i in given], [targets[i] for i in given]
            if may_be_short:
                return pool.get_into(asked, into)
            return pool.get_whole_into(asked, into, [sum(sizes[i]) for i in given])

        return _where_there_is_memory(targets, get)

    # --- Asking.

    def is_exist(self, key: str) -> int:
        """1: it can be read. 0: it cannot. Negative: nobody can say."""
        return self.batch_is_exist([key])[0]

    def batch_is_exist(self, keys: Sequence[str]) -> list[int]:
        """``is_exist`` of many, in one call to the master. Takes no lease."""
        pool = self._pool
        return [_CLOSED] * len(keys) if pool is None else pool.exists(keys)

    def get_size(self, key: str) -> int:
        """Bytes of the object, or -704."""
        pool = self._pool
        return _CLOSED if pool is None else pool.sizes([key])[0]

    def get_replica_desc(self, key: str) -> list[ReplicaDescriptor]:
        """The replicas that can be read now; none where there is no object."""
        return self.batch_get_replica_desc([key]).get(key, [])

    def batch_get_replica_desc(self, keys: Sequence[str]) -> dict[str, list[ReplicaDescriptor]]:
        """Those of each key that is there."""
        pool = self._pool
        described = [None] * len(keys) if pool is None else pool.describe(keys)
        return {key: replicas_of(found.nbytes, found.replicas)
                for key, found in zip(keys, described) if found is not None}

    # --- Removing. Nobody holds a lease without knowing it: `force` changes nothing.

    def remove(self, key: str, force: bool = False) -> int:
        """0: gone for everybody. -704: was not there."""
        return self.batch_remove([key], force)[0]

    def batch_remove(self, keys: Sequence[str], force: bool = False) -> list[int]:
        """``remove`` of many."""
        pool = self._pool
        return [_CLOSED] * len(keys) if pool is None else pool.remove(keys)

    def remove_by_regex(self, regex_pattern: str, force: bool = False) -> int:
        """Removes the namespace's keys in which the pattern (Python's) is found; how many. -600: it
        is no pattern. Looks at every key of the namespace."""
        try:
            pattern = re.compile(regex_pattern)
        except re.error as error:
            _log.error("remove_by_regex: %r: %s", regex_pattern, error)
            return _BAD
        pool = self._pool
        return _CLOSED if pool is None else pool.remove_where(pattern)

    def remove_all(self, force: bool = False) -> int:
        """Removes every key of the namespace; how many."""
        pool = self._pool
        return _CLOSED if pool is None else pool.remove_where(None)


# What stands for memory that cannot be.
_NO_MEMORY = object()


def _memory(ptrs: Sequence[int], sizes: Sequence[int], writable: bool) -> Any:
    """The pieces at these addresses, or _NO_MEMORY."""
    if len(ptrs) != len(sizes) or not all(map(is_region, ptrs, sizes)):
        return _NO_MEMORY
    if sum(sizes) >= SIZE_END:
        return _NO_MEMORY
    return [moonpool.Memory(ptr, size, writable=writable) for ptr, size in zip(ptrs, sizes)]


def _where_there_is_memory(memories: Sequence[Any],
                           call: Callable[[list[int]], list[int]]) -> list[int]:
    """`call` of the indexes at which there is some; -600 elsewhere."""
    codes = [_BAD] * len(memories)
    given = [i for i, memory in enumerate(memories) if memory is not _NO_MEMORY]
    for i, code in zip(given, call(given)):
        codes[i] = code
    return codes
