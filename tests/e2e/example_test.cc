// What users of the SDK build, in each language, in front of a real pool.
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/harness.h"

namespace moonpool::e2e {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Program {
  std::string language;
  std::string path;
  std::string name;
};

class Example : public testing::TestWithParam<Program> {};

TEST_P(Example, StoresAPromptAndFindsItAgain) {
  const auto pool = Pool::Start({.nodes = 2, .dram_bytes = uint64_t{32} << 20});
  ASSERT_NE(pool, nullptr);
  // The second time everything is there already.
  for (int run = 0; run < 2; ++run) {
    const CliResult result = RunProgram(GetParam().path, {pool->master()});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, StartsWith("2 of 3 blocks need not be computed\n"
                                       "prompt/0: 32 bytes\n"
                                       "prompt/1: 23 bytes\n"
                                       "the next: NOT_FOUND (NEVER_STORED): never stored, "));
  }
}

TEST(Examples, RunOnOnePoolOneAfterTheOther) {
  const auto pool = Pool::Start({.nodes = 1, .dram_bytes = uint64_t{32} << 20});
  ASSERT_NE(pool, nullptr);
  for (const char* const program : {EXAMPLE_IN_C, EXAMPLE_IN_CPP}) {
    const CliResult result = RunProgram(program, {pool->master()});
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
}

TEST_P(Example, SaysWhatIsWrong) {
  EXPECT_EQ(RunProgram(GetParam().path, {}).exit_code, 2);
  const CliResult nobody = RunProgram(GetParam().path, {"no-address"});
  EXPECT_EQ(nobody.exit_code, 1);
  EXPECT_THAT(nobody.err, HasSubstr(absl::StrCat(GetParam().name, ": INVALID_ARGUMENT")));
}

INSTANTIATE_TEST_SUITE_P(Languages, Example,
                         testing::Values(Program{"Cpp", EXAMPLE_IN_CPP, "moonpool-example"},
                                         Program{"C", EXAMPLE_IN_C, "moonpool-example-c"}),
                         [](const testing::TestParamInfo<Program>& program) {
                           return program.param.language;
                         });

}  // namespace
}  // namespace moonpool::e2e
