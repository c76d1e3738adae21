"""Flags that texts name: a hint that says "raise --limit-x" is worth nothing without such a flag."""

import re

STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
# Alone in a string it is declared, or compared with: "--output" or "-o,--output".
DECLARED = re.compile(r"(?:-\w,)?(--[a-z][a-z0-9-]*)")
# A row of a table of settings: its key makes the flag.
ROW = re.compile(
    r"\.(?:Bool|Int|Real|Bytes|Duration|Text|Secret|TextList|ListenAddress|PeerAddress|"
    r"PeerAddresses|Choice)(?:<\w+>)?\(\s*\"([a-z][a-z0-9._-]*)\"")


def texts_of(file):
    for number, line in enumerate(file.lines, 1):
        if line.lstrip().startswith("//"):
            continue
        for match in STRING.finditer(line):
            yield number, match[1]


def known_flags(sources, other):
    known = set(other)
    for file in sources:
        for match in ROW.finditer("\n".join(file.lines)):
            known.add("--" + match[1].replace(".", "-").replace("_", "-"))
        for _, text in texts_of(file):
            match = DECLARED.fullmatch(text)
            if match:
                known.add(match[1])
    return known


def check(files, other):
    sources = [file for file in files if file.is_cpp and not file.is_test]
    known = known_flags(sources, other)
    return [
        (file.path, number, f"{flag}: no program of ours has such a flag; name one that exists")
        for file in sources
        for number, text in texts_of(file)
        for flag in FLAG.findall(text)
        if flag not in known
    ]
