"""Who includes whom: the table of allowed edges, and no circles between folders."""

import os
import re

INCLUDE = re.compile(r'\s*#\s*include\s+(["<])([^">]+)[">]')
PROTO = re.compile(r"(moonpool/v1|etcd)/\w+\.pb\.h$")
GRPC = re.compile(r"((moonpool/v1|etcd)/\w+\.grpc\.pb\.h|grpc(pp)?/.*)$")


def includes_of(file):
    """(line number, text, is quoted) of each include."""
    for number, line in enumerate(file.code, 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match[2], match[1] == '"'


def target_folder(text, folders):
    """Where an include leads: a folder of ours, "proto", "grpc", or None for other people's."""
    if GRPC.match(text):
        return "grpc"
    if PROTO.match(text):
        return "proto"
    if text.startswith("moonpool/"):
        return "client_sdk/include/moonpool"
    folder = os.path.dirname(text)
    return folder if folder in folders else None


def row_of(folder, allowed):
    """The longest key of the table that holds the folder."""
    while folder and folder not in allowed:
        folder = os.path.dirname(folder)
    return folder or None


def is_allowed(row, target, allowed):
    if "*" in allowed[row] or target in allowed[row]:
        return True
    return any(
        entry.endswith("/*") and (target + "/").startswith(entry[:-1]) for entry in allowed[row])


def check_edge(file, number, text, target, allowed):
    row = row_of(file.folder, allowed)
    if row is None:
        message = f"{file.folder} has no row in ALLOWED of tools/check_tree.py; add one"
        return [(file.path, number, message)]
    target_row = target if target in ("proto", "grpc") else row_of(target, allowed)
    if target_row is None or target_row == row or is_allowed(row, target_row, allowed):
        return []
    if file.is_test and target.split("/")[0] == file.path.split("/")[0]:
        return []
    may = ", ".join(sorted(allowed[row])) or "nobody"
    message = f"{row} must not include {target_row} ({text}); it may include {may}"
    return [(file.path, number, message)]


def find_cycle(edges):
    """Folders that include each other in a circle, or []; depth first, in a fixed order."""
    done, path = set(), []

    def visit(folder):
        if folder in path:
            return path[path.index(folder):] + [folder]
        if folder in done:
            return []
        path.append(folder)
        for target in sorted(edges.get(folder, {})):
            cycle = visit(target)
            if cycle:
                return cycle
        path.pop()
        done.add(folder)
        return []

    for folder in sorted(edges):
        cycle = visit(folder)
        if cycle:
            return cycle
    return []


def check(files, allowed):
    sources = [file for file in files if file.is_cpp]
    folders = {file.folder for file in sources}
    findings, edges = [], {}
    for file in sources:
        for number, text, is_quoted in includes_of(file):
            if is_quoted and "../" in text:
                findings.append((file.path, number, f'"{text}": write includes from the root'))
            target = target_folder(text, folders)
            if target is None:
                continue
            findings += check_edge(file, number, text, target, allowed)
            if target in folders and target != file.folder and not file.is_test:
                edges.setdefault(file.folder, {}).setdefault(target, (file.path, number))
    cycle = find_cycle(edges)
    if cycle:
        path, number = edges[cycle[0]][cycle[1]]
        message = f"folders include each other in a circle: {' -> '.join(cycle)}; cut one edge"
        findings.append((path, number, message))
    return findings
