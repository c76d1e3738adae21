#include "common/host_id.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/testing/temp_dir.h"

namespace moonpool {
namespace {

TEST(HostId, IsTheSameForEveryProcessOfTheHost) {
  EXPECT_EQ(LocalHostId(), LocalHostId());
  EXPECT_EQ(LocalHostId().size(), 16u);
}

TEST(HostId, DependsOnMachineAndBoot) {
  const TempDir dir;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(dir.path() + "/" + name) << text << "\n";
    return dir.path() + "/" + name;
  };
  const std::string machine1 = write("m1", "aaaa"), machine2 = write("m2", "bbbb");
  const std::string boot1 = write("b1", "1111"), boot2 = write("b2", "2222");
  EXPECT_EQ(HostIdFrom(machine1, boot1), HostIdFrom(machine1, boot1));
  EXPECT_NE(HostIdFrom(machine1, boot1), HostIdFrom(machine2, boot1));
  EXPECT_NE(HostIdFrom(machine1, boot1), HostIdFrom(machine1, boot2));
  EXPECT_EQ(HostIdFrom(machine1, "/nowhere").size(), 16u);
  EXPECT_EQ(HostIdFrom("/nowhere", "/nowhere"), "");
}

}  // namespace
}  // namespace moonpool
