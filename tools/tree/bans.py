"""Names that have no place in some folders, or anywhere."""

import re

from tree.includes import GRPC, includes_of

NOT_DETERMINISTIC_HEADERS = re.compile(
    r"(thread|mutex|shared_mutex|condition_variable|future|semaphore|latch|barrier|chrono|random"
    r"|sys/socket\.h|sys/epoll\.h|sys/un\.h|netinet/.*|arpa/inet\.h|netdb\.h|poll\.h|time\.h|ctime"
    r"|pthread\.h)$")

NOT_DETERMINISTIC_CODE = re.compile(
    r"\b(absl::Now|absl::SleepFor|\w+_clock::now|SteadyClock|std::random_device|std::this_thread"
    r"|clock_gettime|gettimeofday|absl::BitGen)\b|\b(rand|srand|usleep|sleep|time)\s*\(")

# The wall clock jumps. absl's timed waits end by it, too: SteadyCondVar has those that do not.
WALL_CLOCK = re.compile(
    r"\b(absl::Now|system_clock|(GPR_)?CLOCK_REALTIME|gettimeofday|absl::CondVar"
    r"|(Await|Wait|WaitForNotification)With(Timeout|Deadline))\b")

SLEEP = re.compile(r"\b(sleep_for|sleep_until|SleepFor|nanosleep)\b|\bu?sleep\s*\(|\btime\.sleep\b")
EXCEPTION = re.compile(r"\bthrow\b|\btry\s*\{|\bcatch\s*\(")
GETENV = re.compile(r"\b(secure_)?getenv\b")
IF_ZERO = re.compile(r"\s*#\s*if\s+0\b")
# A TODO names the issue or the person who will do it.
LOOSE_END = re.compile(r"\b(TODO(?!\([\w#./-]+\))|FIXME|XXX)\b")
TEST_HEADERS = re.compile(r"(gtest/|gmock/|.*/testing/)")


def check_includes(file, is_deterministic, hidden):
    for number, text, _ in includes_of(file):
        if is_deterministic and NOT_DETERMINISTIC_HEADERS.match(text):
            yield number, f"<{text}> in a deterministic folder; take a Clock, Random or the like"
        if is_deterministic and GRPC.match(text):
            yield number, f"<{text}> in a deterministic folder; only edges see gRPC"
        if not file.is_test and TEST_HEADERS.match(text):
            yield number, f"product code includes {text}; only tests may"
        for prefix, owners in hidden.items():
            if text.startswith(prefix) and file.path not in owners:
                yield number, f"<{text}>: only {', '.join(owners)} includes {prefix}; use it instead"


def check_code(file, is_deterministic, may_getenv, may_catch, may_read_wall_clock):
    for number, line in enumerate(file.code, 1):
        if is_deterministic and NOT_DETERMINISTIC_CODE.search(line):
            yield number, "time, randomness or a thread in a deterministic folder; have it injected"
        elif WALL_CLOCK.search(line) and not file.is_test and file.path not in may_read_wall_clock:
            yield number, "the wall clock jumps; take a Clock, or wait with a SteadyCondVar"
        if EXCEPTION.search(line) and not file.path.startswith(may_catch):
            yield number, "no exceptions in our code; return a Status"
        if GETENV.search(line) and file.path not in may_getenv:
            yield number, f"only {', '.join(may_getenv)} reads the environment; add an option"
        if IF_ZERO.match(line):
            yield number, "#if 0: delete it, git remembers"
        if "using namespace" in line and file.path.endswith(".h"):
            yield number, "using namespace in a header"


def check(files, deterministic, hidden, may_getenv, may_catch, may_read_wall_clock):
    findings = []
    for file in files:
        found = []
        is_own = file.path.startswith("tools/tree/") or file.path.startswith("tools/check_tree")
        if file.is_cpp:
            in_set = any((file.folder + "/").startswith(folder + "/") for folder in deterministic)
            is_deterministic = in_set and not file.is_test
            found += check_includes(file, is_deterministic, hidden)
            found += check_code(file, is_deterministic, may_getenv, may_catch, may_read_wall_clock)
            if file.path.endswith(".h") and "#pragma once" not in file.lines:
                found.append((1, "a header starts with #pragma once"))
        for number, line in enumerate(file.lines, 1):
            if not is_own and LOOSE_END.search(line):
                found.append((number, "a loose end: do it, or TODO(issue) with what is missing"))
        if file.is_test and not is_own:
            for number, line in enumerate(file.code, 1):
                if SLEEP.search(line):
                    found.append((number, "a test must not sleep; wait for the event, or fake the clock"))
        findings += [(file.path, number, text) for number, text in found]
    return findings
