#include "common/standard_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace moonpool {
namespace {

bool Refuses(ssize_t result) { return result == -1 && errno == EBADF; }

// What is wrong after a start with closed standard files; 0 = nothing. In a process of its own.
int StartWithoutStandardFiles() {
  for (int fd = 0; fd < 3; ++fd) close(fd);
  HoldStandardFiles();
  const int next = open("/dev/null", O_RDWR);
  char byte = 'x';
  if (next < 3) return 1;
  if (!Refuses(read(STDIN_FILENO, &byte, 1))) return 2;
  if (!Refuses(write(STDOUT_FILENO, &byte, 1))) return 3;
  if (!Refuses(write(STDERR_FILENO, &byte, 1))) return 4;
  return 0;
}

TEST(StandardFiles, ClosedOnesAreHeldAndRefuseAll) {
  const pid_t child = fork();
  if (child == 0) _exit(StartWithoutStandardFiles());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace moonpool
