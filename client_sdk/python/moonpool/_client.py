"""Arguments as people give them, for the native client."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence

from moonpool import _native
from moonpool._errors import InvalidArgument
from moonpool._names import HOST_PORT_EXAMPLE, is_host_port

_log = logging.getLogger("moonpool")


def _masters_of(masters: str | Sequence[str] | None) -> list[str]:
    if masters is None:
        masters = os.environ.get("MOONPOOL_MASTER", "")
        if not masters:
            raise InvalidArgument(
                "no master is named", code="INVALID_ARGUMENT", reason="BAD_ARGUMENT",
                hint="pass masters=\"host:port\" or set MOONPOOL_MASTER")
    if isinstance(masters, str):
        masters = [part.strip() for part in masters.split(",") if part.strip()]
    for master in masters:
        if isinstance(master, str) and not is_host_port(master):
            raise InvalidArgument(
                f'masters: "{master}" is not host:port', code="INVALID_ARGUMENT",
                reason="BAD_ARGUMENT", hint=f'the address of moonpool-master, {HOST_PORT_EXAMPLE}')
    return list(masters)


def _log_warning(line: str) -> None:
    _log.warning("%s", line)


class Client(_native.Client):
    # The docstrings of the class and its methods are those of the native class.
    __doc__ = _native.Client.__doc__

    def __init__(
        self,
        masters: str | Sequence[str] | None = None,
        *,
        namespace: str = "default",
        fingerprint: str = "",
        path: str = "auto",
        verify: bool = True,
        timeout: float = 10.0,
        wait_for_master: bool = True,
        tcp_streams: int = 2,
        host_id: str = "",
        trusted_uids: Sequence[int] = (),
        location_cache_entries: int = 65536,
        on_warning: Callable[[str], None] | None = None,
        cancel: _native.CancelSource | None = None,
    ) -> None:
        """Reaches the master and opens the namespace within ``timeout``.

        Args:
            masters: ``"host:port"``, several separated by commas or as a sequence; the one that
                leads serves. None: the environment's MOONPOOL_MASTER.
            namespace: Keys of two namespaces have nothing to do with each other.
            fingerprint: Layout of what is stored (``moonpool.fingerprint``). The namespace is made
                with it if there is none, and refused (FailedPrecondition) if it has another. ``""``:
                the namespace must exist, and any is accepted.
            path: ``"auto"``: shared memory on the same host, TCP elsewhere; ``"tcp"``, ``"shm"``.
            verify: Compute the checksum of every byte read.
            timeout: Seconds, of calls that give none.
            wait_for_master: Sit out an outage of the masters until the timeout; False: Unavailable
                after about a second, for those who would rather compute the bytes than wait.
            tcp_streams: Per node and concurrent call.
            host_id: Which nodes share this host's memory; ``""``: found out.
            trusted_uids: Users besides root and this one whose nodes' pool files are mapped.
            location_cache_entries: Locations that are remembered; 0: none.
            on_warning: Called with one line for what someone should know and no call returns, from
                any thread; it must not wait, nor call the client. None:
                ``logging.getLogger("moonpool").warning``.
            cancel: Ends connecting, with Cancelled.

        Raises:
            InvalidArgument; Unavailable or DeadlineExceeded: no master answers; Miss
            (NAMESPACE_UNKNOWN); FailedPrecondition (FINGERPRINT_MISMATCH).
        """
        super().__init__(
            masters=_masters_of(masters), namespace=namespace, fingerprint=fingerprint, path=path,
            verify=verify, timeout=timeout, wait_for_master=wait_for_master,
            tcp_streams=tcp_streams, host_id=host_id, trusted_uids=list(trusted_uids),
            location_cache_entries=location_cache_entries,
            on_warning=_log_warning if on_warning is None else on_warning, cancel=cancel)

    def __repr__(self) -> str:
        state = "closed" if self.closed else ",".join(self.masters)
        return f"<moonpool.Client {self.namespace} at {state}>"
