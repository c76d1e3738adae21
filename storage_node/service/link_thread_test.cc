#include "storage_node/service/link_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "common/testing/test_logger.h"
#include "storage_node/pool/testing/test_pool.h"
#include "storage_node/service/testing/fake_master.h"

namespace moonpool::storage_node {
namespace {

using ::testing::HasSubstr;

bool IsRegister(const v1::NodeMessage& message) { return message.has_register_(); }
bool IsComplete(const v1::NodeMessage& message) { return message.inventory().complete(); }

class LinkThreadTest : public ::testing::Test {
 protected:
  void StartLink(std::vector<std::string> masters, absl::Duration end_max = absl::Seconds(5)) {
    MasterLinkOptions options;
    options.masters = std::move(masters);
    options.backoff_min = absl::Milliseconds(5);
    options.backoff_max = absl::Milliseconds(50);
    auto link = std::make_unique<MasterLink>(
        NodeIdentity{.name = "n1",
                     .incarnation = Incarnation{7},
                     .host_id = {},
                     .rack = {},
                     .tcp_address = "127.0.0.1:1",
                     .shm_path = {}},
        options, MasterLink::Dependencies{pool_.index(), copies_, metrics_, log_.logger()},
        Random(1));
    thread_ = std::make_unique<LinkThread>(
        std::move(link), clock_, log_.logger(), [this] { ++rounds_; }, end_max);
    pool_.index().seal_reports().SetOnPending([this] { thread_->Wake(); });
    thread_->Start();
  }
  ~LinkThreadTest() override {
    if (thread_ != nullptr) thread_->Stop();
  }

  SteadyClock clock_;
  TestLogger log_;
  metrics::Registry registry_;
  LinkMetrics metrics_{registry_};
  TestPool pool_;
  CopyQueue copies_;
  std::unique_ptr<LinkThread> thread_;
  std::atomic<int> rounds_{0};
};

TEST_F(LinkThreadTest, RegistersUploadsAndReportsSeals) {
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 128), "before"), IsOk());
  FakeMaster master(3);
  StartLink({master.address()});
  EXPECT_TRUE(master.WaitFor([](const v1::NodeMessage& message) {
    return message.inventory().parts_size() == 1 && message.inventory().parts(0).key() == "before";
  }));
  EXPECT_TRUE(master.WaitFor(IsComplete));
  ASSERT_THAT(pool_.Put(Gen(3, 2), At(256, 128), "after"), IsOk());
  EXPECT_TRUE(master.WaitFor([](const v1::NodeMessage& message) {
    return message.seal_report().parts_size() == 1 &&
           message.seal_report().parts(0).key() == "after";
  }));
  EXPECT_TRUE(master.WaitFor(
      [](const v1::NodeMessage& message) { return message.heartbeat().sequence() == 3; }));
  EXPECT_TRUE(thread_->is_live());
  EXPECT_EQ(thread_->Describe(), "live in term 3");
  EXPECT_GT(rounds_, 0);
}

TEST_F(LinkThreadTest, CommandsAreDoneAndAnswered) {
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 128), "a"), IsOk());
  FakeMaster master;
  StartLink({master.address()});
  ASSERT_TRUE(master.WaitFor(IsComplete));
  v1::MasterMessage command;
  command.mutable_command()->set_command_id(9);
  command.mutable_command()->set_term(1);
  command.mutable_command()->mutable_free()->add_generations(Gen(1, 1).value);
  // More than are read or written at a time.
  for (int repeat = 0; repeat < 200; ++repeat) master.Send(command);
  EXPECT_TRUE(master.WaitForCount(200, [](const v1::NodeMessage& message) {
    return message.command_result().command_id() == 9;
  }));
  EXPECT_FALSE(pool_.IsReadable(Gen(1, 1), At(0, 128)));
}

TEST_F(LinkThreadTest, ASessionThatEndsIsFollowedByAnother) {
  FakeMaster master;
  StartLink({master.address()});
  for (int session = 1; session <= 3; ++session) {
    ASSERT_TRUE(master.WaitForCount(session, IsComplete));
    master.EndSession();
  }
  EXPECT_TRUE(master.WaitForCount(4, IsRegister));
  EXPECT_GE(metrics_.failures.value(), 3u);
}

TEST_F(LinkThreadTest, AMasterThatFallsSilentIsLeft) {
  FakeMaster master(/*term=*/1, /*session_timeout_ms=*/100);
  master.set_answers_heartbeats(false);
  StartLink({master.address()});
  EXPECT_TRUE(master.WaitForCount(2, IsRegister));
  EXPECT_GE(metrics_.failures.value(), 1u);
}

TEST_F(LinkThreadTest, TheNextMasterIsTriedWhenOneIsAway) {
  std::string gone;
  {
    const FakeMaster former;
    gone = former.address();
  }
  FakeMaster master;
  StartLink({gone, master.address()});
  EXPECT_TRUE(master.WaitFor(IsComplete));
  EXPECT_THAT(log_.lines(), ::testing::Contains(HasSubstr("no link to the master master=" + gone)));
}

TEST_F(LinkThreadTest, TheLeaderThatIsNamedIsFollowed) {
  FakeMaster leader(/*term=*/2);
  FakeMaster standby;
  standby.Refuse(leader.address());
  StartLink({standby.address()});
  // What it says of itself follows what it sends, and comes before what it sends in the next round.
  EXPECT_TRUE(leader.WaitFor(
      [](const v1::NodeMessage& message) { return message.heartbeat().sequence() == 2; }));
  EXPECT_EQ(thread_->Describe(), "live in term 2");
}

TEST_F(LinkThreadTest, WhileItsMasterIsSilentAnotherOneIsMovedTo) {
  ASSERT_THAT(pool_.Put(Gen(1, 1), At(0, 128), "a"), IsOk());
  FakeMaster former(/*term=*/1, /*session_timeout_ms=*/600'000);
  FakeMaster next(/*term=*/2);
  next.Refuse(former.address());
  StartLink({former.address(), next.address()});
  ASSERT_TRUE(former.WaitFor(
      [](const v1::NodeMessage& message) { return message.heartbeat().sequence() == 3; }));
  former.set_answers_heartbeats(false);
  // Until it leads it is asked, and the session goes on.
  EXPECT_TRUE(next.WaitForCount(3, IsRegister));
  EXPECT_TRUE(thread_->is_live());
  EXPECT_FALSE(former.WaitForCount(2, IsRegister, absl::ZeroDuration()));
  next.Lead();
  EXPECT_TRUE(next.WaitFor(IsComplete));
  EXPECT_TRUE(next.WaitFor(
      [](const v1::NodeMessage& message) { return message.heartbeat().sequence() == 3; }));
  EXPECT_EQ(thread_->Describe(), "live in term 2");
}

TEST_F(LinkThreadTest, StopsWhileItAsks) {
  FakeMaster former(/*term=*/1, /*session_timeout_ms=*/600'000);
  FakeMaster silent;
  silent.Ignore();
  former.set_answers_heartbeats(false);
  StartLink({former.address(), silent.address()});
  EXPECT_TRUE(silent.WaitFor(IsRegister));
  thread_->Stop();
}

TEST_F(LinkThreadTest, StopsWhateverItIsDoing) {
  std::string gone;
  {
    FakeMaster master;
    StartLink({master.address()});
    thread_->Stop();
    thread_->Stop();
    gone = master.address();
  }
  StartLink({gone});
  thread_->Stop();
  StartLink({"no-such-host.invalid:1"});
}

TEST_F(LinkThreadTest, DoesNotWaitForEverForAStreamThatDoesNotEnd) {
  FakeMaster master;
  StartLink({master.address()}, /*end_max=*/absl::ZeroDuration());
  ASSERT_TRUE(master.WaitFor(IsComplete));
  thread_->Stop();
  EXPECT_THAT(log_.lines(), ::testing::Contains(HasSubstr("did not end streams=1")));
}

}  // namespace
}  // namespace moonpool::storage_node
