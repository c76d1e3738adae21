"""The numbers that Mooncake's calls return, and what a Moonpool's errors are among them.

Some callers give up their buffers for lost after numbers that they do not know to be harmless: the
original may still write there. A Moonpool touches no buffer once a call has returned, so what can
happen to a healthy caller is said with numbers that all of them take for harmless.
"""

from __future__ import annotations

from enum import IntEnum

import moonpool


class ErrorCode(IntEnum):
    """Those of Mooncake's numbers that occur here. Bytes read and counts are positive."""

    OK = 0
    INTERNAL_ERROR = -1
    NO_AVAILABLE_HANDLE = -200
    INVALID_KEY = -400
    INVALID_PARAMS = -600
    REPLICA_IS_NOT_READY = -703
    OBJECT_NOT_FOUND = -704
    TRANSFER_FAIL = -800
    CHECKSUM_MISMATCH = -801
    RPC_FAIL = -900
    RPC_TIMEOUT = -901
    UNAVAILABLE_IN_CURRENT_STATUS = -1010
    TENANT_NOT_REGISTERED = -1701


# What a reason says more exactly than its code does.
_BY_REASON = {
    "KEY_TOO_LONG": ErrorCode.INVALID_KEY,
    "NAMESPACE_UNKNOWN": ErrorCode.TENANT_NOT_REGISTERED,
    "FINGERPRINT_MISMATCH": ErrorCode.INVALID_PARAMS,
    "BEING_WRITTEN": ErrorCode.REPLICA_IS_NOT_READY,
    # vLLM's connector pauses its stores on this one: as true of a pool that has no nodes yet.
    "NO_NODES": ErrorCode.NO_AVAILABLE_HANDLE,
}

_BY_CODE = {
    "INVALID_ARGUMENT": ErrorCode.INVALID_PARAMS,
    "NOT_FOUND": ErrorCode.OBJECT_NOT_FOUND,
    "ABORTED": ErrorCode.REPLICA_IS_NOT_READY,
    "RESOURCE_EXHAUSTED": ErrorCode.NO_AVAILABLE_HANDLE,
    "UNAVAILABLE": ErrorCode.RPC_FAIL,
    "CANCELLED": ErrorCode.RPC_FAIL,
    "DEADLINE_EXCEEDED": ErrorCode.RPC_TIMEOUT,
    "DATA_LOSS": ErrorCode.CHECKSUM_MISMATCH,
    "FAILED_PRECONDITION": ErrorCode.UNAVAILABLE_IN_CURRENT_STATUS,
}


def code_of(error: moonpool.MoonpoolError) -> int:
    """The number for an error of the pool; always negative."""
    code = _BY_REASON.get(error.reason) or _BY_CODE.get(error.code) or ErrorCode.INTERNAL_ERROR
    return int(code)
