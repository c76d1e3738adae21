// What a user of the SDK builds, in front of a real pool.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/harness.h"

namespace moonpool::e2e {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Example, StoresAPromptAndFindsItAgain) {
  const auto pool = Pool::Start({.nodes = 2, .dram_bytes = uint64_t{32} << 20});
  ASSERT_NE(pool, nullptr);
  // The second time everything is there already.
  for (int run = 0; run < 2; ++run) {
    const CliResult result = RunProgram(EXAMPLE_PROGRAM, {pool->master()});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, StartsWith("2 of 3 blocks need not be computed\n"
                                       "prompt/0: 32 bytes\n"
                                       "prompt/1: 23 bytes\n"
                                       "the next: NOT_FOUND (NEVER_STORED): never stored, "));
  }
}

TEST(Example, SaysWhatIsWrong) {
  EXPECT_EQ(RunProgram(EXAMPLE_PROGRAM, {}).exit_code, 2);
  const CliResult nobody = RunProgram(EXAMPLE_PROGRAM, {"no-address"});
  EXPECT_EQ(nobody.exit_code, 1);
  EXPECT_THAT(nobody.err, HasSubstr("moonpool-example: INVALID_ARGUMENT"));
}

}  // namespace
}  // namespace moonpool::e2e
