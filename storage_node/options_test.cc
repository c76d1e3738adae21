#include "storage_node/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/testing/status_matchers.h"

namespace moonpool::storage_node {
namespace {

using ::testing::ElementsAre;

class OptionsTest : public ::testing::Test {
 protected:
  OptionsTest() { Describe(options_, table_); }
  absl::Status Parse(std::vector<std::string> args) { return table_.Parse(args).status(); }

  ProgramOptions options_;
  ConfigTable table_{{.program = "moonpool-node", .summary = "s", .version = "v"}};
};

TEST_F(OptionsTest, FlagsReachTheirFields) {
  ASSERT_THAT(Parse({"--master",
                     "a:1,b:2",
                     "--name",
                     "n1",
                     "--dram",
                     "3MiB",
                     "--huge-pages",
                     "off",
                     "--prefault-threads",
                     "3",
                     "--numa-node",
                     "1",
                     "--pool-dir",
                     "/dev/shm/p",
                     "--pool-pins-dir",
                     "/dev/shm/q",
                     "--pool-lock-wait",
                     "3s",
                     "--data-listen",
                     "10.0.0.1:7",
                     "--data-advertise",
                     "host:0",
                     "--shm-path",
                     "/run/x.sock",
                     "--io-threads",
                     "4",
                     "--http-listen",
                     "127.0.0.1:9",
                     "--rack",
                     "r1",
                     "--host-id",
                     "h1"}),
              IsOk());
  EXPECT_THAT(options_.node.masters, ElementsAre("a:1", "b:2"));
  EXPECT_EQ(options_.node.name, "n1");
  EXPECT_EQ(options_.node.dram_bytes, 3u << 20);
  EXPECT_EQ(options_.node.huge_pages, HugePages::kOff);
  EXPECT_EQ(options_.node.prefault_threads, 3);
  EXPECT_EQ(options_.node.numa_node, 1);
  EXPECT_EQ(options_.node.pool_dir, "/dev/shm/p");
  EXPECT_EQ(options_.node.pool_pins_dir, "/dev/shm/q");
  EXPECT_EQ(options_.node.pool_lock_wait, absl::Seconds(3));
  EXPECT_EQ(options_.node.data_listen, "10.0.0.1:7");
  EXPECT_EQ(options_.node.data_advertise, "host:0");
  EXPECT_EQ(options_.node.shm_path, "/run/x.sock");
  EXPECT_EQ(options_.node.io_threads, 4);
  EXPECT_EQ(options_.http_listen, "127.0.0.1:9");
  EXPECT_EQ(options_.node.rack, "r1");
  EXPECT_EQ(options_.node.host_id, "h1");
}

TEST_F(OptionsTest, BadValuesAreRefused) {
  EXPECT_FALSE(Parse({"--dram", "12"}).ok());
  EXPECT_FALSE(Parse({"--dram", "lots"}).ok());
  EXPECT_FALSE(Parse({"--huge-pages", "maybe"}).ok());
  EXPECT_FALSE(Parse({"--io-threads", "0"}).ok());
  EXPECT_FALSE(Parse({"--master", "nowhere"}).ok());
  EXPECT_FALSE(Parse({"--no-such-flag", "1"}).ok());
}

}  // namespace
}  // namespace moonpool::storage_node
