"""The files of the tree, and C++ text with what is no code blanked out."""

import os
import re
import subprocess

CPP = (".h", ".cc", ".c", ".inc")
CHECKED = CPP + (".py", ".sh", ".cmake", "CMakeLists.txt", "Makefile")


class File:
    """One text file: `lines` as they are, `code` with comments and literals blanked (C++)."""

    def __init__(self, path, text):
        self.path = path
        self.folder = os.path.dirname(path)
        self.is_cpp = path.endswith(CPP)
        self.is_test = (
            path.endswith(("_test.cc", "_test.c", "_test.py", "_fixture.h", "_fixture.cc"))
            or "/testing/" in path
            or path.startswith("tests/")
        )
        self.lines = text.split("\n")
        self.code = blank_literals(text).split("\n") if self.is_cpp else self.lines


def read_lines(root, path):
    try:
        with open(os.path.join(root, path), encoding="utf-8") as file:
            return file.read().split("\n")
    except FileNotFoundError:
        return []


def list_paths(root):
    """Tracked and new files; without git, all but build/."""
    command = ["git", "-C", root, "ls-files", "-z", "-co", "--exclude-standard"]
    try:
        result = subprocess.run(command, capture_output=True, check=True, text=True)
        return sorted(set(filter(None, result.stdout.split("\0"))))
    except (OSError, subprocess.CalledProcessError):
        pass
    paths = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != "build" and not name.startswith(".")]
        paths += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(paths)


def load(root):
    files = []
    for path in list_paths(root):
        full = os.path.join(root, path)
        if not path.endswith(CHECKED) or not os.path.isfile(full):
            continue
        with open(full, encoding="utf-8", errors="replace") as file:
            files.append(File(path, file.read()))
    return files


LITERAL = re.compile(
    r"""
    //[^\n]*
    | /\*.*?\*/
    | R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)"
    | "(?:\\.|[^"\\\n])*"
    | (?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])+'
    """,
    re.VERBOSE | re.DOTALL,
)


def blank_literals(text):
    """Comments, strings and characters become spaces; #include lines and newlines stay."""

    def blank(match):
        found = match.group(0)
        line_start = text.rfind("\n", 0, match.start()) + 1
        if found.startswith('"') and re.match(r"\s*#\s*include", text[line_start:match.start()]):
            return found
        return "".join(c if c == "\n" else " " for c in found)

    return LITERAL.sub(blank, text)
