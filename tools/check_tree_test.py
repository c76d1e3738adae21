#!/usr/bin/env python3
"""Each rule of check_tree on a small tree that breaks it, and on one that does not."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import check_tree  # noqa: E402
from tree import source  # noqa: E402
from tree.sizes import cpp_functions  # noqa: E402


class CheckTree(unittest.TestCase):
    def findings(self, tree):
        with tempfile.TemporaryDirectory() as root:
            for path, text in tree.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return check_tree.check(root)

    def assert_finds(self, tree, path, line, words):
        found = self.findings(tree)
        hits = [f for f in found if f[0] == path and f[1] == line and words in f[2]]
        self.assertTrue(hits, f"no '{words}' at {path}:{line} in {found}")
        self.assertEqual(len(found), len(hits), found)

    def assert_clean(self, tree):
        self.assertEqual(self.findings(tree), [])

    def test_allowed_edges_are_clean(self):
        self.assert_clean({
            "common/a.h": "#pragma once\n#include <string>\n",
            "master/core/b.cc": '#include "common/a.h"\n',
            "master/service/c.cc": '#include "master/core/b.h"\n#include <grpcpp/grpcpp.h>\n',
            "master/core/b.h": "#pragma once\n",
        })

    def test_forbidden_edge_names_both_ends(self):
        tree = {"common/a.cc": '\n#include "master/core/b.h"\n', "master/core/b.h": "#pragma once\n"}
        self.assert_finds(tree, "common/a.cc", 2, "common must not include master/core")

    def test_master_and_storage_node_do_not_know_each_other(self):
        tree = {"storage_node/service/a.cc": '#include "master/core/b.h"\n',
                "master/core/b.h": "#pragma once\n"}
        self.assert_finds(tree, "storage_node/service/a.cc", 1, "must not include master/core")

    def test_test_may_include_all_of_its_top_folder_but_no_other(self):
        self.assert_clean({"transport/a_test.cc": '#include "transport/sim/b.h"\n',
                           "transport/sim/b.h": "#pragma once\n"})
        tree = {"transport/a_test.cc": '#include "master/core/b.h"\n',
                "master/core/b.h": "#pragma once\n"}
        self.assert_finds(tree, "transport/a_test.cc", 1, "must not include")

    def test_a_hint_names_a_flag_that_exists(self):
        rows = 'table.Int("limit.nodes", &n, {1, 2},\n          "Nodes.");\n'
        self.assert_clean({"master/options.cc": rows,
                           "master/core/a.cc": 'Hint("raise --limit-nodes or --limit-nodes");\n'})
        self.assert_clean({"cli/a.cc": 'Add("-o,--output", "see --output");\n// --gone "--gone x"\n'})
        tree = {"master/options.cc": rows, "master/core/a.cc": '\nHint("raise --max-nodes now");\n'}
        self.assert_finds(tree, "master/core/a.cc", 2, "--max-nodes")

    def test_a_text_names_a_test_that_exists(self):
        tests = {"common/a_test.cc": "TEST_F(\n    Bars, Hold) {}\n"}
        self.assert_clean({**tests, "TESTING.md": "`Bars.Hold`, `a.b`\n"})
        self.assert_finds({**tests, "TESTING.md": "\n`Bars.Held`\n"}, "TESTING.md", 2, "Bars.Held")

    def test_unknown_folder_needs_a_row(self):
        tree = {"gadget/a.cc": '#include "common/a.h"\n', "common/a.h": "#pragma once\n"}
        self.assert_finds(tree, "gadget/a.cc", 1, "has no row")

    def test_grpc_only_at_edges(self):
        tree = {"client_sdk/src/ok.cc": '#include "moonpool/v1/master.grpc.pb.h"\n',
                "bench/limits/a.cc": '#include "moonpool/v1/master.grpc.pb.h"\n'}
        self.assert_finds(tree, "bench/limits/a.cc", 1, "must not include grpc")

    def test_circle_between_folders(self):
        tree = {"bench/x/a.h": '#pragma once\n#include "bench/y/b.h"\n',
                "bench/y/b.h": '#pragma once\n#include "bench/x/a.h"\n'}
        self.assert_finds(tree, "bench/x/a.h", 2, "circle: bench/x -> bench/y -> bench/x")

    def test_deterministic_folders(self):
        for line, words in [
            ("#include <thread>", "deterministic"),
            ("#include <sys/socket.h>", "deterministic"),
            ("const SteadyClock clock;", "have it injected"),
            ("auto t = std::chrono::steady_clock::now();", "have it injected"),
            ("int x = rand();", "have it injected"),
        ]:
            self.assert_finds({"master/core/a.cc": line + "\n"}, "master/core/a.cc", 1, words)
            self.assert_clean({"storage_node/service/a.cc": line + "\n"})
        self.assert_clean({"master/core/a_test.cc": "#include <thread>\n"})
        self.assert_clean({"master/core/a.cc": '// rand() and absl::Now()\nauto s = "rand()";\n'})

    def test_bans_everywhere(self):
        for line, words in [
            ('#include "../x.h"', "from the root"),
            ("#if 0", "git remembers"),
            ("// TODO: later", "loose end"),
            ("// FIXME", "loose end"),
            ('auto v = getenv("X");', "environment"),
            ("throw 1;", "exceptions"),
            ("#include <spdlog/spdlog.h>", "common/log.cc"),
            ('#include "common/testing/fake.h"', "only tests may"),
            ("const absl::Time now = absl::Now();", "the wall clock jumps"),
            ("mutex_.AwaitWithTimeout(condition, timeout);", "SteadyCondVar"),
        ]:
            self.assert_finds({"common/a.cc": line + "\n"}, "common/a.cc", 1, words)
        self.assert_clean({"common/a.cc": "// TODO(#12): more units\n"})
        self.assert_clean({"master/main.cc": "const absl::Time now = absl::Now();\n"})
        self.assert_clean({"common/a_test.cc": "const absl::Time now = absl::Now();\n"})

    def test_tests_must_not_sleep(self):
        line = "std::this_thread::sleep_for(x);\n"
        self.assert_finds({"common/a_test.cc": line}, "common/a_test.cc", 1, "must not sleep")
        self.assert_clean({"bench/limits/a.cc": line})
        self.assert_clean({"common/a_test.cc": 'Run("exec sleep 60");\n'})

    def test_header_needs_its_guard(self):
        self.assert_finds({"common/a.h": "int x;\n"}, "common/a.h", 1, "#pragma once")

    def test_long_file_and_long_function(self):
        self.assert_finds({"common/a.cc": "\n" * 501}, "common/a.cc", 1, "501 lines")
        body = "int Long() {\n" + "  x();\n" * 69 + "}\n"
        self.assert_finds({"common/a.cc": "\n" + body}, "common/a.cc", 2, "Long has 71 lines")
        self.assert_clean({"common/a.cc": body.replace("  x();\n", "", 1)})
        self.assert_finds({"tools/a.py": "def long():\n" + "    x()\n" * 70}, "tools/a.py", 1, "71")

    def test_allowlist_only_shrinks(self):
        tree = {"common/a.cc": "\n" * 501, "tools/size_allowlist.txt": "common/a.cc 501 2026-01-01\n"}
        self.assert_clean(tree)
        tree["common/a.cc"] += "\n"
        self.assert_finds(tree, "common/a.cc", 1, "grew from 501 to 502")
        tree["tools/size_allowlist.txt"] = "# why\ncommon/a.cc 510 2026-01-01\n"
        self.assert_finds(tree, "tools/size_allowlist.txt", 2, "write 502")
        tree["common/a.cc"] = ""
        self.assert_finds(tree, "tools/size_allowlist.txt", 2, "remove its line")


class Functions(unittest.TestCase):
    def names(self, text):
        return [f[0] for f in cpp_functions(source.blank_literals(text).split("\n"))]

    def test_what_is_a_function(self):
        text = """
namespace a {
template <typename T = int>
class Box : public Base<int> {
 public:
  Box() : x_(1) {}
  bool operator==(const Box& o) const { return x_ == o.x_; }
  int Get() const ABSL_LOCKS_EXCLUDED(mu_) {
    if (x_ == 1'000) { return '{'; }
    return [] { return 1; }();
  }
  int x_{3};
};
constexpr int kTable[] = {1, 2};
const auto kLambda = [](int x) { return x; };
extern "C" int Run(const char* p) {
  for (int i = 0; i < 3; ++i) { Use("}"); }
  return 0;
}
TEST(Suite, Name) { EXPECT_TRUE(R"({{)" != nullptr); }
}  // namespace a
"""
        self.assertEqual(self.names(text), ["Box", "operator==", "Get", "Run", "Suite.Name"])

    def test_lines_span_the_signature(self):
        text = "int F(int a,\n      int b) {\n  return a;\n}\n"
        self.assertEqual(cpp_functions(text.split("\n")), [("F", 1, 4)])


if __name__ == "__main__":
    unittest.main()
