"""Tests that a text names: a promise that "such a test shows it" ends when the test is renamed."""

import re

NAMED = re.compile(r"`([A-Z]\w+)\.([A-Z]\w+)`")
DEFINED = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)


def known_tests(files):
    return {
        match.groups()
        for file in files
        if file.is_cpp and file.is_test
        for match in DEFINED.finditer("\n".join(file.code))
    }


def check(files, path, lines):
    known = known_tests(files)
    return [
        (path, number, f"{suite}.{name}: there is no such test; name the one that shows it now")
        for number, line in enumerate(lines, 1)
        for suite, name in NAMED.findall(line)
        if (suite, name) not in known
    ]
