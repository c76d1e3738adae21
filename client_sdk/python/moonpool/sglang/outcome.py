"""What the pool's answer for one page means to SGLang.

SGLang knows only True and False. A False of a get ends the fetch there, which is right for every
failure: the tokens are computed. A False of a set is dearer than it looks: the controller ends the
backup of all later pages of that operation, and never offers them again while they stay in its
tree. So a set is False only where the pool could not be asked or lost the bytes, and everything
that storing again would not change is True.
"""

from __future__ import annotations

import enum
from typing import Any

from moonpool._outage import is_away


class Outcome(enum.Enum):
    DONE = "done"  # read in full; stored, here or by somebody else
    MISSED = "missed"  # not in the pool, and the pool says so
    DROPPED = "dropped"  # the pool has no room for it, or does not want it
    AWAY = "away"  # master or node out of reach, or too slow
    WRONG = "wrong"  # must not happen: wrong size, damaged bytes, a refused call

    @property
    def answered(self) -> bool:
        """Was there somebody on the other side?"""
        return self is not Outcome.AWAY


def is_error(answer: Any) -> bool:
    """Of a batch: is this entry an error (moonpool.MoonpoolError) instead of a value?"""
    return isinstance(answer, Exception)


def of_get(answer: int | Exception, nbytes: int) -> Outcome:
    """`answer`: bytes read, or the error. Fewer than `nbytes` are not this page's bytes."""
    if not is_error(answer):
        return Outcome.DONE if answer == nbytes else Outcome.WRONG
    return _of_error(answer)


def of_put(answer: bool | Exception) -> Outcome:
    """`answer`: True stored, False was there before, or the error."""
    if not is_error(answer):
        return Outcome.DONE
    code, reason = _code(answer), getattr(answer, "reason", "")
    if code == "ALREADY_EXISTS" or reason in ("ALREADY_EXISTS", "BEING_WRITTEN", "DUPLICATE_KEY"):
        return Outcome.DONE
    if code == "RESOURCE_EXHAUSTED" or reason == "VALUE_TOO_LARGE":
        return Outcome.DROPPED
    return _of_error(answer)


def of_exists(answer: bool | Exception) -> Outcome:
    if not is_error(answer):
        return Outcome.DONE if answer else Outcome.MISSED
    return _of_error(answer)


def of_raised(error: BaseException) -> Outcome:
    """A whole call that raised."""
    return _of_error(error)


def kind(answer: Any) -> tuple[str, str]:
    """(code, reason) of an error, for counting and for the log; ("SHORT", "") of a short read."""
    if is_error(answer):
        return _code(answer), getattr(answer, "reason", "") or ""
    return "SHORT", ""


def explain(answer: Any) -> str:
    """One line for a person: what happened, where, and what to do."""
    if not is_error(answer):
        return f"the object has {answer} bytes, which is not what a page of this layout has"
    parts = [getattr(answer, "message", "") or str(answer) or type(answer).__name__]
    code, reason = kind(answer)
    parts.append(f"[{code}{' ' + reason if reason else ''}]")
    if node := getattr(answer, "node", ""):
        parts.append(f"node {node}")
    if hint := getattr(answer, "hint", ""):
        parts.append(f"- {hint}")
    return " ".join(parts)


def _code(error: BaseException) -> str:
    return getattr(error, "code", "") or type(error).__name__


def _of_error(error: BaseException) -> Outcome:
    if is_away(error):
        return Outcome.AWAY
    if _code(error) == "NOT_FOUND":
        # "Its holders are out of reach" is a fact about this object: the master answered.
        return Outcome.MISSED
    return Outcome.WRONG
