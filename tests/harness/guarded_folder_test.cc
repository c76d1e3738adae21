#include "tests/harness/guarded_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/testing/status_matchers.h"
#include "common/testing/temp_dir.h"
#include "tests/harness/wait.h"

namespace moonpool::harness {
namespace {

bool IsEmpty(const std::string& folder) {
  return std::filesystem::directory_iterator(folder) == std::filesystem::directory_iterator();
}

TEST(GuardedFolder, IsGoneWithItsOwner) {
  const TempDir parent;
  {
    const auto folder = GuardedFolder::Create(parent.path(), "guarded-");
    ASSERT_THAT(folder, IsOk());
    std::ofstream((*folder)->path() + "/file") << "bytes";
    EXPECT_FALSE(IsEmpty(parent.path()));
  }
  EXPECT_TRUE(IsEmpty(parent.path()));
}

TEST(GuardedFolder, IsGoneWithAProcessThatIsKilled) {
  const TempDir parent;
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto folder = GuardedFolder::Create(parent.path(), "guarded-");
    std::filesystem::create_directories((*folder)->path() + "/deep/folder");
    if (write(ready[1], "r", 1) == 1) pause();
    _exit(1);
  }
  ASSERT_GT(child, 0);
  char word = 0;
  ASSERT_EQ(read(ready[0], &word, 1), 1);
  EXPECT_FALSE(IsEmpty(parent.path()));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(Eventually([&] { return IsEmpty(parent.path()); }));
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace moonpool::harness
