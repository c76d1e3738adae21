"""The options of an engine's adapter: a frozen dataclass, made from what the engine was given.

    @dataclass(frozen=True)
    class Options:
        masters: tuple[str, ...] = ()
        replicas: int = 1

    options = parse(Options, {"masters": "pool:7400", "replicas": 2}, "the extra config")

Nothing is ignored in silence: an option that is, is found out weeks later. Private to this
package's adapters, in which options of one meaning have one name.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, get_type_hints

from moonpool._names import HOST_PORT_EXAMPLE, NAMESPACE_CHARACTERS, is_host_port, is_namespace

_T = TypeVar("_T")

# What a value of each declared type may be (of JSON: it writes 4 for 4.0), and how people say it.
_KINDS: dict[Any, tuple[tuple[type, ...], str]] = {
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    bool: ((bool,), "true or false"),
    str: ((str,), "a string"),
}


def parse(cls: type[_T], given: Mapping[str, Any], where: str) -> _T:
    """The options in `given`, which people know as `where`; `masters` may be in $MOONPOOL_MASTER.

    Raises ValueError: an unknown name, with the nearest one as a hint, a value of another type, no
    masters. Whether a value makes sense is for the class to say, but see `check_common`.
    """
    known = get_type_hints(cls)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise ValueError(f"moonpool: unknown option {name!r} in {where}; {hint}")
    values = {name: _typed(name, value, known[name])
              for name, value in given.items() if name != "masters"}
    return cls(masters=_masters_of(given.get("masters"), where), **values)


def require(holds: bool, name: str, what: str) -> None:
    """ValueError unless it holds: `name` must be `what`."""
    if not holds:
        raise ValueError(f"moonpool: {name} must be {what}")


def check_common(options: Any) -> None:
    """Raises ValueError where one of the options that adapters share makes no sense."""
    check_client(options)
    require(options.hold >= 0, "hold", "0 or more")
    require(0 < options.pause_first <= options.pause_longest, "pause_first",
            "above 0, and at most pause_longest")


def check_client(options: Any) -> None:
    """Raises ValueError where one of those that are a client's makes no sense."""
    require(options.path in ("auto", "tcp", "shm"), "path", "auto, tcp or shm")
    at_least_1(options, "replicas")
    require(1 <= options.tcp_streams <= 64, "tcp_streams", "1 to 64")


def check_namespace(name: str, bytes_max: int = 255) -> None:
    """Raises ValueError for the option namespace when no pool would take this name."""
    require(is_namespace(name, bytes_max), "namespace",
            f"1 to {bytes_max} {NAMESPACE_CHARACTERS}, not {name!r}")


def at_least_1(options: Any, *names: str) -> None:
    for name in names:
        require(getattr(options, name) >= 1, name, "at least 1")


def above_0(options: Any, *names: str) -> None:
    for name in names:
        require(getattr(options, name) > 0, name, "above 0")


def _masters_of(value: Any, where: str) -> tuple[str, ...]:
    """"host:port" each; of a string, in which commas separate them, or a list."""
    if value is None or value == "":
        value = os.environ.get("MOONPOOL_MASTER", "")
    parts = value.split(",") if isinstance(value, str) else value
    require(isinstance(parts, Sequence) and all(isinstance(part, str) for part in parts), "masters",
            f"'host:port[,host:port]' or a list of such, not {value!r}")
    masters = tuple(part.strip() for part in parts if part.strip())
    if not masters:
        raise ValueError(f"moonpool: {where} names no masters: set the option masters to "
                         "host:port, or MOONPOOL_MASTER in the environment")
    for master in masters:
        require(is_host_port(master), "masters", f"host:port each, {HOST_PORT_EXAMPLE}, not "
                                                 f"{master!r}")
    return masters


def _typed(name: str, value: Any, kind: Any) -> Any:
    types, said = _KINDS[kind]
    fits = isinstance(value, types) and (kind is bool or not isinstance(value, bool))
    require(fits, name, f"{said}, not {value!r}")
    return kind(value)
