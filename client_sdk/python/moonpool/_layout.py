"""What tells layouts apart: a namespace's fingerprint, and which weights lie in a folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

# With the namespace's name at most 254 bytes go; longer texts keep a readable head and a hash.
_BYTES_MAX = 160
# Read by others (the publisher of KV events): it stands first, where no cut removes it.
_FIRST = "page_tokens"

# What a model's folder holds that its configuration does not tell: weights, and the model's code.
_WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".tensors", ".py")


def fingerprint(**layout: object) -> str:
    """Canonical text of a layout, for ``Client(fingerprint=...)``.

    Whatever makes bytes of one engine wrong for another belongs into it::

        fingerprint(model="llama-3-8b", revision="main", dtype="bfloat16", page_tokens=64, tp=2)
        # 'page_tokens=64;dtype=bfloat16;model=llama-3-8b;revision=main;tp=2'

    The order of the arguments does not matter; None is left out. Characters that separate are
    escaped. A text over 160 bytes is cut and ends in the SHA-256 of the whole.
    """
    names = sorted(layout, key=lambda name: (name != _FIRST, name))
    text = ";".join(f"{name}={_escaped(layout[name])}" for name in names
                    if layout[name] is not None)
    if len(text) <= _BYTES_MAX:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    return f"{text[:_BYTES_MAX - 40]};sha256={digest}"


def _escaped(value: object) -> str:
    text = str(value).encode("unicode_escape").decode("ascii")
    return text.replace(";", "\\x3b").replace("=", "\\x3d")


def weights_of(path: str) -> str:
    """16 hex digits of which weights lie at `path`, without reading them; "" where nothing does.

    A path says where weights are, not which. Of each file of weights, or of code, in the folder and
    those below go name, size and time of change (nanoseconds) into the digest: it is the same after
    a restart, and another one after the files were written anew. A copy of a folder counts as other
    weights, unless it keeps the times (``cp -p``, ``rsync -t``). In a cache of the Hugging Face hub
    files are links to blobs that are named by their content: there copies are equal everywhere.

    path may be a single file (GGUF), too. Configurations do not count: compare what they say.
    Raises OSError when files go away meanwhile.
    """
    if os.path.isdir(path):
        files = sorted((os.path.relpath(file, path), file) for file in _weight_files(path))
    elif os.path.isfile(path):
        files = [(os.path.basename(path), path)]
    else:
        return ""
    digest = hashlib.sha256()
    for name, file in files:
        digest.update(f"{name}\0{_identity(file)}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]


def _weight_files(folder: str) -> Iterator[str]:
    """The files of weights and code below a folder, but for hidden folders (.git, .cache)."""
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (os.path.join(parent, name) for name in names
                    if name.endswith(_WEIGHT_SUFFIXES))


def _identity(file: str) -> str:
    """What changes with a file's content."""
    target = os.path.realpath(file)
    folder, name = os.path.split(target)
    if os.path.basename(folder) == "blobs" and os.path.islink(file):
        return name
    status = os.stat(target)
    return f"{status.st_size} {status.st_mtime_ns}"
