"""Types of the native module. Its docstrings are the manual."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, TypeAlias

from typing_extensions import Buffer, Self

from moonpool._errors import Miss, MoonpoolError

# A torch tensor (contiguous, CPU) goes wherever a buffer goes; torch is not imported for it.
Bytes: TypeAlias = Buffer | Any
Key: TypeAlias = str | bytes

class Memory:
    address: int
    nbytes: int
    def __init__(self, address: int, nbytes: int, *, owner: object = None,
                 writable: bool = True) -> None: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class HostBuffer:
    address: int
    nbytes: int
    def __init__(self, nbytes: int, *, huge_pages: bool = False,
                 numa_node: int | None = None) -> None: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class CancelSource:
    def __init__(self) -> None: ...
    def cancel(self) -> None: ...

class PrefixMatch:
    matched: int
    sizes: list[int]
    held: float
    miss: Miss | None

class Description:
    nbytes: int
    replicas: list[list[str]]

class KeyPage:
    keys: list[Key]
    next: str

class View:
    pieces: list[memoryview]
    nbytes: int
    valid: bool
    def release(self) -> None: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None: ...

class Client:
    closed: bool
    namespace: str
    masters: tuple[str, ...]
    def __init__(self, *, masters: Sequence[str], namespace: str, fingerprint: str, path: str,
                 verify: bool, timeout: float, wait_for_master: bool, tcp_streams: int,
                 host_id: str, trusted_uids: Sequence[int], location_cache_entries: int,
                 on_warning: Any) -> None: ...
    def put(self, key: Key, value: Bytes | Sequence[Bytes], *, parent: Key = "", replicas: int = 1,
            min_replicas: int = 0, wait_for_space: bool = True, wait_for_writer: bool = False,
            timeout: float | None = None, cancel: CancelSource | None = None) -> bool: ...
    def put_many(self, keys: Sequence[Key], values: Sequence[Bytes | Sequence[Bytes]], *,
                 parents: Sequence[Key] | None = None, replicas: int = 1, min_replicas: int = 0,
                 wait_for_space: bool = True, wait_for_writer: bool = False,
                 timeout: float | None = None,
                 cancel: CancelSource | None = None) -> list[bool | MoonpoolError]: ...
    def get(self, key: Key, *, verify: bool | None = None, timeout: float | None = None,
            cancel: CancelSource | None = None) -> bytes: ...
    def get_many(self, keys: Sequence[Key], *, verify: bool | None = None,
                 timeout: float | None = None,
                 cancel: CancelSource | None = None) -> list[bytes | MoonpoolError]: ...
    def get_into(self, key: Key, target: Bytes | Sequence[Bytes], *, verify: bool | None = None,
                 timeout: float | None = None, cancel: CancelSource | None = None) -> int: ...
    def get_into_many(self, keys: Sequence[Key], targets: Sequence[Bytes | Sequence[Bytes]], *,
                      verify: bool | None = None, timeout: float | None = None,
                      cancel: CancelSource | None = None) -> list[int | MoonpoolError]: ...
    def get_view(self, key: Key, *, verify: bool | None = None, timeout: float | None = None,
                 cancel: CancelSource | None = None) -> View: ...
    def get_view_many(self, keys: Sequence[Key], *, verify: bool | None = None,
                      timeout: float | None = None,
                      cancel: CancelSource | None = None) -> list[View | MoonpoolError]: ...
    def exists(self, key: Key, *, timeout: float | None = None,
               cancel: CancelSource | None = None) -> bool: ...
    def exists_many(self, keys: Sequence[Key], *, timeout: float | None = None,
                    cancel: CancelSource | None = None) -> list[bool | MoonpoolError]: ...
    def match_prefix(self, keys: Sequence[Key], *, hold: float = 0.0, timeout: float | None = None,
                     cancel: CancelSource | None = None) -> PrefixMatch: ...
    def describe(self, key: Key, *, timeout: float | None = None,
                 cancel: CancelSource | None = None) -> Description: ...
    def describe_many(self, keys: Sequence[Key], *, timeout: float | None = None,
                      cancel: CancelSource | None = None) -> list[Description | MoonpoolError]: ...
    def list_keys(self, prefix: Key = "", *, limit: int = 1000, after: str = "",
                  timeout: float | None = None,
                  cancel: CancelSource | None = None) -> KeyPage: ...
    def remove(self, key: Key, *, timeout: float | None = None,
               cancel: CancelSource | None = None) -> bool: ...
    def remove_many(self, keys: Sequence[Key], *, timeout: float | None = None,
                    cancel: CancelSource | None = None) -> list[bool | MoonpoolError]: ...
    def stats(self) -> dict[str, int]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None: ...
