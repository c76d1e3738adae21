"""A ratchet on size: a file or function over the limit stands on a list that may only shrink."""

import ast
import re

CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")
TEMPLATE_ARGUMENTS = re.compile(r"<[^<>()]*>")
NAME = re.compile(r"(operator\s*[^\s\w]+|[~\w:]+)\s*\(")
TEST_NAME = re.compile(r"TEST\w*\(\s*(\w+),\s*(\w+)")


def without_template_arguments(head):
    while True:
        shorter = TEMPLATE_ARGUMENTS.sub("", head)
        if shorter == head:
            return head
        head = shorter


def head_kind(head):
    """What a '{' opens, by the text before it: 'container', 'function' or 'other'."""
    head = without_template_arguments(head)
    before_parenthesis = head.split("(")[0]
    if "(" not in head:
        return "container" if CONTAINER.search(head) else "other"
    if re.match(r"\s*(template\s*)?(class|struct|union|enum|namespace)\b", head):
        return "container"
    if "=" in before_parenthesis and "operator" not in before_parenthesis:
        return "other"
    return "function"


def function_name(head):
    test = TEST_NAME.search(head)
    if test:
        return f"{test[1]}.{test[2]}"
    name = NAME.search(head)
    return name[1] if name else "?"


def cpp_functions(code):
    """(name, first line, last line) of outermost function bodies; a heuristic on braces."""
    functions = []
    stack = []  # (kind, name, first line); inside a function only depth matters
    head, head_line = "", 0
    in_directive = False
    for number, line in enumerate(code, 1):
        if in_directive or line.lstrip().startswith("#"):
            in_directive = line.rstrip().endswith("\\")
            continue
        for char in line:
            inside = bool(stack) and stack[-1][0] in ("function", "other")
            if char == "{":
                kind = "other" if inside else head_kind(head)
                stack.append((kind, function_name(head), head_line or number))
                head, head_line = "", 0
            elif char == "}":
                kind, name, first = stack.pop() if stack else ("other", "?", number)
                if kind == "function":
                    functions.append((name, first, number))
                head, head_line = "", 0
            elif char == ";" and not inside:
                # The semicolons of a for-head are inside a body and never reach this.
                head, head_line = "", 0
            elif not inside:
                head += char
                if not char.isspace() and head_line == 0:
                    head_line = number
        if not (stack and stack[-1][0] in ("function", "other")):
            head += " "
    return functions


def python_functions(lines):
    try:
        tree = ast.parse("\n".join(lines))
    except SyntaxError:
        return []
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        (node.name, node.lineno, node.end_lineno) for node in ast.walk(tree)
        if isinstance(node, kinds)]


def functions_of(file):
    if file.is_cpp:
        return cpp_functions(file.code)
    return python_functions(file.lines) if file.path.endswith(".py") else []


def measure(files, file_max, function_max):
    """name -> (path, line, size, limit) of all that is over its limit."""
    over = {}
    for file in files:
        line_count = len(file.lines) - (1 if file.lines[-1] == "" else 0)
        if line_count > file_max:
            over[file.path] = (file.path, 1, line_count, file_max)
        for name, first, last in functions_of(file):
            size = last - first + 1
            key = f"{file.path}:{name}"
            if size > function_max and size > over.get(key, (0, 0, 0))[2]:
                over[key] = (file.path, first, size, function_max)
    return over


def parse_allowlist(lines):
    """name -> (line number, size); lines are "name size date", # starts a comment."""
    entries = {}
    for number, line in enumerate(lines, 1):
        words = line.split("#")[0].split()
        if words:
            entries[words[0]] = (number, int(words[1]))
    return entries


def check(files, allowlist_lines, file_max, function_max, allowlist_path):
    over = measure(files, file_max, function_max)
    allowed = parse_allowlist(allowlist_lines)
    findings = []
    for name, (path, line, size, limit) in over.items():
        what = name if name != path else "the file"
        if name not in allowed:
            findings.append((path, line, f"{what} has {size} lines, at most {limit}; split it"))
        elif size > allowed[name][1]:
            text = f"{what} grew from {allowed[name][1]} to {size} lines; it may only shrink"
            findings.append((path, line, text))
    for name, (number, size) in allowed.items():
        now = over[name][2] if name in over else None
        if now is None:
            text = f"{name} is within the limit or gone; remove its line"
            findings.append((allowlist_path, number, text))
        elif now < size:
            findings.append((allowlist_path, number, f"{name} shrank; write {now} instead of {size}"))
    return findings
