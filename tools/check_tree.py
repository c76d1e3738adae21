#!/usr/bin/env python3
"""The rules of the tree that no compiler checks: who may include whom, what the deterministic
folders must not touch, and how large files and functions may grow.

Run from anywhere: tools/check_tree.py [ROOT]. Prints path:line: what is wrong; what to do. Exit 1
when it found anything.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from tree import bans, flags, includes, named_tests, sizes, source  # noqa: E402

# Folder -> what it may include, itself aside. The longest folder that holds a file decides, and a
# row speaks for the subfolders that have none of their own. "proto" is moonpool/v1/*.pb.h and
# etcd/*.pb.h, "grpc" is gRPC's own headers and the generated stubs. Tests may also include all of
# their top folder.
ALLOWED = {
    "common": {"proto"},
    "common/config": {"common"},
    "common/metrics": {"common"},
    "common/http": {"common", "common/config", "common/metrics"},
    "common/program": {"common", "common/config", "common/http", "common/metrics"},
    "common/wire": {"proto"},
    "common/rpc": {"common", "common/config", "common/wire", "proto"},
    "common/rpc/grpc": {"common", "common/rpc", "common/wire", "proto", "grpc"},
    "transport": {"common", "common/metrics"},
    "transport/stream": {"common", "common/metrics", "transport"},
    "transport/tcp": {"common", "common/metrics", "transport", "transport/stream"},
    "transport/shm": {"common", "common/metrics", "transport", "transport/stream"},
    "transport/sim": {"common", "common/metrics", "transport"},
    "master/core/eviction": {"common"},
    "master/core": {"common", "master/core/eviction"},
    "master/meta": {"common", "master/core", "master/election", "master/etcd"},
    "master/etcd": {"common", "common/config", "proto", "grpc"},
    "master/election": {"common", "common/config", "common/metrics", "master/etcd"},
    "master/handlers": {
        "common", "common/rpc", "common/wire", "master/core", "master/core/eviction", "master/election",
        "master/meta", "proto"},
    "master": {"common/*", "master/*", "proto", "grpc"},
    "storage_node/memory": {"common", "common/metrics", "transport"},
    "storage_node/pool": {"common", "common/metrics", "transport"},
    "storage_node/journal": {"common", "storage_node/pool", "transport"},
    "storage_node/serve": {"common", "common/metrics", "storage_node/pool", "transport"},
    "storage_node/copy": {"common", "common/metrics", "storage_node/pool", "transport"},
    "storage_node/scrub": {"common", "common/metrics", "storage_node/pool", "transport"},
    "storage_node/copy/testing": {"common/*", "storage_node/*", "transport/*"},
    "storage_node/link": {
        "common", "common/metrics", "common/rpc", "storage_node/copy", "storage_node/pool",
        "transport", "proto"},
    "storage_node": {"common/*", "storage_node/*", "transport/*", "proto", "grpc"},
    "client_sdk/include": {"common"},
    "client_sdk/core": {"client_sdk/include", "common", "common/rpc", "transport", "proto"},
    "client_sdk/python/src": {"client_sdk/include", "common"},
    "client_sdk": {"client_sdk/*", "common/*", "transport/*", "proto", "grpc"},
    "bench/trace": {"common/*", "master/core/eviction"},
    "bench/scale": {"bench/*", "common/*", "master/core"},
    "bench": {"bench/*", "client_sdk/include", "common/*", "transport/*"},
    "examples": {"client_sdk/include"},
    "cli": {"bench/*", "cli/*", "client_sdk/include", "common/*", "proto", "grpc"},
    "tests": {"*"},
}

# What the simulator runs as it is: no threads, clocks, sockets, randomness or gRPC of its own.
DETERMINISTIC = (
    "master/core",
    "master/handlers",
    "master/election",
    "storage_node/pool",
    "storage_node/journal",
    "storage_node/serve",
    "storage_node/copy",
    "storage_node/scrub",
    "storage_node/link",
    "client_sdk/core",
)

# A library that one file hides from the rest: (include prefix, the files that may name it).
HIDDEN_LIBRARIES = {
    "spdlog/": ("common/log.cc",),
    "toml++/": ("common/config/config_toml.cc",),
    "prometheus/": ("common/metrics/metrics.cc",),
    "httplib": ("common/http/http_server.cc",),
    "rocksdb/": ("master/meta/rocks_meta_store.cc",),
    "zmq.h": ("cli/kv_events/zmq_socket.cc",),
}

# The mains, which read the environment: one variable for the daemons, one for `moonpool`.
MAY_GETENV = ("common/program/program.cc", "cli/main.cc")

# A library that reports by throwing, caught where it is called; and the border to C, where whatever
# was thrown has to end. Nothing of ours throws.
MAY_CATCH = (
    "cli/usage.cc",
    "client_sdk/c/border.cc",
    "client_sdk/c/border_test.cc",
    "client_sdk/python/src/",
)

# The first term of a master without durable state; the date in KV events; and deadlines that gRPC is given at once, which
# counts on from there by the monotonic clock.
MAY_READ_WALL_CLOCK = (
    "master/main.cc",
    "master/service/server.cc",
    "cli/control_bench/control_suite.cc", "cli/control_bench/put_calls.cc",
    "cli/control_bench/grpc_echo.cc", "cli/control_bench/echo_server.cc",
    "cli/kv_events.cc",
    "cli/master_link/master_link.cc",
)

# What looks like a flag of ours in a string and is none: numactl's, words of the line that a daemon
# prints when it serves, the name of a row in the help.
OTHER_FLAGS = ("--hardware", "--http", "--shm", "--tcp", "--flag", "--no-flag")

# The text that says which test shows what.
TESTS_TEXT = "TESTING.md"

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
SIZE_ALLOWLIST = "tools/size_allowlist.txt"


def check(root):
    files = source.load(root)
    findings = []
    findings += includes.check(files, ALLOWED)
    findings += bans.check(
        files, DETERMINISTIC, HIDDEN_LIBRARIES, MAY_GETENV, MAY_CATCH, MAY_READ_WALL_CLOCK)
    findings += flags.check(files, OTHER_FLAGS)
    findings += named_tests.check(files, TESTS_TEXT, source.read_lines(root, TESTS_TEXT))
    findings += sizes.check(
        files, source.read_lines(root, SIZE_ALLOWLIST), FILE_LINES_MAX, FUNCTION_LINES_MAX,
        SIZE_ALLOWLIST)
    return sorted(findings)


def main(argv):
    default_root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    findings = check(argv[1] if len(argv) > 1 else default_root)
    for path, line, text in findings:
        print(f"{path}:{line}: {text}")
    if findings:
        print(f"check_tree: {len(findings)} findings")
        return 1
    print("check_tree: clean")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
