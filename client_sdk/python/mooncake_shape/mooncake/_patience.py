"""Callers that stop waiting for a call, and use its memory again.

LMCache hands its puts to another thread, waits for so long, and gives the memory to somebody else:
the put may still be reading it, or not even have begun. The caller's clock starts when it hands the
call over, ours when a thread is free for it; what both know is the moment at which the caller took
the method from the store. What is done with the caller's memory is done within its patience from
then on.
"""

from __future__ import annotations

import functools
import math
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

# Of a caller's patience that is used: its clock may have begun a little before ours.
_SHARE = 0.9
# Seconds that a copy needs at least.
_PUT_LEAST = 0.1
# What LMCache waits for a get where its configuration does not say.
_LMCACHE_GET = 10.0
# Where LMCache's numbers stand: classes, and the locals of its functions that have one. LMCache
# 0.5.6 makes the second class at run time: nothing but the name tells it.
_OF_PUTS = ("MooncakeStoreConfig", "transfer_timeout")
_OF_GETS = ("LMCacheEngineConfig", "blocking_timeout_secs")
_CONFIGS = ("config", "lmcache_config")

_running = threading.local()


def clock() -> float:
    """Seconds; that of asyncio's loops, too."""
    return time.monotonic()


@dataclass(frozen=True)
class Patience:
    """Seconds that a caller waits for what it has handed to another thread; infinite: to the end.

    Attributes:
        put: From then on the memory that is stored may hold other bytes.
        get: From then on the memory that is read into may belong to somebody else.
    """

    put: float = math.inf
    get: float = math.inf

    def is_endless(self) -> bool:
        return math.isinf(self.put) and math.isinf(self.get)

    def put_deadline(self) -> float:
        """By ``clock``, of the call that is running on this thread."""
        return _begun() + _SHARE * self.put

    def get_deadline(self) -> float:
        return _begun() + _SHARE * self.get


class handed_over:
    """Decorates a method that may be called on another thread than it was taken on.

    For a store whose ``is_waited_for`` is false the moment of the taking is remembered while the
    method runs: take it anew for each call. One that is called where it was taken begins then.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        functools.update_wrapper(self, function)

    def __get__(self, store: Any, owner: type | None = None) -> Callable[..., Any]:
        if store is None or store.is_waited_for:
            return self._function.__get__(store, owner)
        return functools.partial(self._run, store, clock(), threading.get_ident())

    def _run(self, store: Any, taken: float, thread: int, /, *args: Any, **kwargs: Any) -> Any:
        # Also where a method of the store calls another one.
        if thread == threading.get_ident():
            return self._function(store, *args, **kwargs)
        _running.taken = taken
        try:
            return self._function(store, *args, **kwargs)
        finally:
            del _running.taken


def _begun() -> float:
    """When the call that is running on this thread was handed over; now, if it was not."""
    taken = getattr(_running, "taken", None)
    return clock() if taken is None else taken


def is_called_by_lmcaches_connector() -> bool:
    """Whether LMCache is setting up a store that it moves chunks with.

    Its lookup client understands the numbers, and its engine does not survive an exception there.
    """
    modules = [str(frame.f_globals["__name__"]) for frame in _frames_of_lmcache()]
    return bool(modules) and not any(".lookup_client." in module for module in modules)


def patience_of_lmcache(said: Patience) -> Patience | None:
    """That of the LMCache connector that is setting up a store; None: somebody else is.

    LMCache does not pass on ``transfer_timeout``: it is read where it stands, in the configuration
    that the connector sets up from. A shorter one that was ``said`` holds. ValueError: it is
    neither found nor said, or it leaves no time for a copy.
    """
    frames = _frames_of_lmcache()
    if not frames:
        return None
    put = min(_number_in(frames, *_OF_PUTS), said.put)
    if math.isinf(put):
        raise ValueError("LMCache gives up puts and uses their memory again, and this version does "
                         "not show after how long. In extra_config: mooncake_put_patience: "
                         "SECONDS, no more than its transfer_timeout")
    if put < _PUT_LEAST:
        raise ValueError(f"LMCache gives up puts after {put:g} s, in which nothing can be stored. "
                         "In extra_config, or the file of MOONCAKE_CONFIG_PATH: transfer_timeout: "
                         "1 or more")
    get = min(_number_in(frames, *_OF_GETS), said.get)
    return Patience(put, _LMCACHE_GET if math.isinf(get) else get)


def _frames_of_lmcache() -> list[FrameType]:
    """Innermost first."""
    frames, frame = [], sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("lmcache."):
            frames.append(frame)
        frame = frame.f_back
    return frames


def _number_in(frames: list[FrameType], kind: str, name: str) -> float:
    """The field of the nearest configuration of that class; infinite: there is none.

    No other object of LMCache's is touched, and none of its code runs: what an attribute does that
    is asked for is nobody's to foresee.
    """
    for frame in frames:
        local = frame.f_locals
        for config in (*map(local.get, _CONFIGS), _fields_of(local.get("self")).get("config")):
            if type(config).__name__ == kind:
                number = _fields_of(config).get(name)
                if type(number) in (int, float):
                    return float(number)
    return math.inf


def _fields_of(thing: Any) -> dict[str, Any]:
    """An object's own attributes, past whatever its class makes of asking for one."""
    try:
        return object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
