#include "storage_node/service/socket_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "common/testing/temp_dir.h"

namespace moonpool::storage_node {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

TEST(SocketPath, IsInAFolderOfThisUserAlone) {
  const TempDir run;
  const TempDir temp;
  ASSERT_OK_AND_ASSIGN(std::string path, SocketPathUnder(run.path(), temp.path(), "gpu17:41873/x"));
  EXPECT_EQ(path, run.path() + "/moonpool/gpu17_41873_x.sock");
  struct stat info {};
  ASSERT_EQ(stat((run.path() + "/moonpool").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_THAT(SocketPathUnder(run.path(), temp.path(), "again"), IsOk());

  ASSERT_OK_AND_ASSIGN(path, SocketPathUnder(run.path() + "/absent", temp.path(), "n"));
  EXPECT_EQ(path, absl::StrCat(temp.path(), "/moonpool-", geteuid(), "/n.sock"));
}

TEST(SocketPath, AFolderThatOthersMayUseIsRefused) {
  const TempDir temp;
  const std::string folder = absl::StrCat(temp.path(), "/moonpool-", geteuid());
  ASSERT_EQ(mkdir(folder.c_str(), 0755), 0);
  EXPECT_THAT(SocketPathUnder("", temp.path(), "n"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  ASSERT_EQ(rmdir(folder.c_str()), 0);
  const TempDir elsewhere;
  ASSERT_EQ(symlink(elsewhere.path().c_str(), folder.c_str()), 0);
  EXPECT_THAT(SocketPathUnder("", temp.path(), "n"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(SocketPath, ALongNameBecomesAShortFile) {
  const TempDir temp;
  ASSERT_OK_AND_ASSIGN(const std::string path,
                       SocketPathUnder(temp.path(), "", std::string(200, 'n')));
  EXPECT_LT(path.size(), 108u);
  EXPECT_THAT(path, StartsWith(temp.path()));
  EXPECT_THAT(path, EndsWith(".sock"));
}

}  // namespace
}  // namespace moonpool::storage_node
