"""What goes wrong, as exceptions: one class for each code that says what the caller should do.

The code answers "what now?", the reason "why exactly?"; nobody needs to parse a message.
"""

from __future__ import annotations


class MoonpoolError(Exception):
    """Base of all errors of a pool. Instances also stand in the lists of the ``*_many`` calls.

    Attributes:
        code: Name of the status code, e.g. ``"NOT_FOUND"``.
        reason: Why, e.g. ``"EVICTED"`` or ``"NO_SPACE"``; ``""`` when there is none.
        message: What happened, one line.
        hint: What to do next; may be ``""``.
        key: The key it is about; ``""`` when it is about none. Bytes that are no UTF-8 are escaped.
        node: The storage node it is about; ``""`` when it is about none.
        retry_after: Seconds after which trying again makes sense; 0 when nobody knows.
    """

    def __init__(self, message: str = "", *, code: str = "UNKNOWN", reason: str = "",
                 hint: str = "", key: str = "", node: str = "", retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.hint = hint
        self.key = key
        self.node = node
        self.retry_after = retry_after

    def __str__(self) -> str:
        cause = f"{self.code} ({self.reason})" if self.reason else self.code
        text = f"{cause}: {self.message}"
        return f"{text}; {self.hint}" if self.hint else text

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def __reduce__(self):
        return (_rebuild, (type(self), self.message, self.__dict__))


class Miss(MoonpoolError, KeyError):
    """NOT_FOUND: there is no readable object; the reason says why."""


class AlreadyExists(MoonpoolError):
    """ALREADY_EXISTS."""


class InvalidArgument(MoonpoolError, ValueError):
    """INVALID_ARGUMENT: the call itself is wrong; repeating it does not help."""


class Unavailable(MoonpoolError, ConnectionError):
    """UNAVAILABLE: master or nodes out of reach; try again, or compute the bytes."""


class DeadlineExceeded(MoonpoolError, TimeoutError):
    """DEADLINE_EXCEEDED: not within the timeout."""


class Cancelled(MoonpoolError):
    """CANCELLED: by a CancelSource, or because the client is going."""


class ResourceExhausted(MoonpoolError):
    """RESOURCE_EXHAUSTED: a bound of the pool or of this process; back off, or do without."""


class FailedPrecondition(MoonpoolError):
    """FAILED_PRECONDITION: something must change first: another fingerprint, a closed client."""


class Aborted(MoonpoolError):
    """ABORTED: lost a race, e.g. BEING_WRITTEN by another client."""


class DataLoss(MoonpoolError):
    """DATA_LOSS: bytes arrived damaged, time and again."""


class InternalError(MoonpoolError):
    """INTERNAL: a fault of Moonpool; please report it."""


_CLASSES: dict[str, type[MoonpoolError]] = {
    "NOT_FOUND": Miss,
    "ALREADY_EXISTS": AlreadyExists,
    "INVALID_ARGUMENT": InvalidArgument,
    "UNAVAILABLE": Unavailable,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
    "CANCELLED": Cancelled,
    "RESOURCE_EXHAUSTED": ResourceExhausted,
    "FAILED_PRECONDITION": FailedPrecondition,
    "ABORTED": Aborted,
    "DATA_LOSS": DataLoss,
    "INTERNAL": InternalError,
}


def from_status(code: str, reason: str, message: str, hint: str, key: str, node: str,
                retry_after: float) -> MoonpoolError:
    """The instance for a status of the native module."""
    kind = _CLASSES.get(code, MoonpoolError)
    return kind(message, code=code, reason=reason, hint=hint, key=key, node=node,
                retry_after=retry_after)


def _rebuild(kind: type[MoonpoolError], message: str, state: dict) -> MoonpoolError:
    error = kind(message)
    error.__dict__.update(state)
    return error
