#include "storage_node/service/node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/host_id.h"
#include "common/testing/status_matchers.h"
#include "common/testing/temp_dir.h"
#include "common/testing/test_logger.h"
#include "storage_node/service/testing/fake_master.h"
#include "transport/shm/shm_transport.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/waiter.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class NodeTest : public ::testing::Test {
 protected:
  NodeOptions Options() {
    NodeOptions options;
    options.masters = {master_.address()};
    options.name = "n1";
    options.dram_bytes = 1'000'000;
    options.shm_path = dir_.path() + "/n1.sock";
    return options;
  }
  std::unique_ptr<Node> Start(NodeOptions options) {
    auto node = std::make_unique<Node>(std::move(options),
                                       Node::Dependencies{clock_, registry_, log_.logger()});
    const absl::Status status = node->Start();
    EXPECT_THAT(status, IsOk());
    return node;
  }
  transport::PeerAddress PeerOf(const Node& node) {
    return {.name = node.name(),
            .incarnation = node.incarnation(),
            .host_id = LocalHostId(),
            .tcp_address = node.tcp_address(),
            .shm_path = node.shm_path()};
  }
  CallContext Soon() { return {.deadline = clock_.Now() + absl::Seconds(20), .cancel = {}}; }

  // Writes a part, then reads it back.
  void PutAndGet(transport::Transport& transport, const Node& node, uint32_t counter) {
    ASSERT_OK_AND_ASSIGN(auto channel, transport.Connect(PeerOf(node), Soon()));
    std::vector<std::byte> payload(50'000);
    for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i * counter);
    const Extent extent{SegmentId{0}, counter * 64 * 1024, payload.size() + kPartHeaderBytes};
    transport::WriteOp write;
    write.record = {.generation = Generation::Of(Term{5}, counter),
                    .name_space = "default",
                    .key = absl::StrCat("key", counter),
                    .parent = {},
                    .extent = extent,
                    .object_bytes = payload.size()};
    write.from = {payload};
    ASSERT_THAT(channel->Submit(&write), IsOk());
    transport::PollWaiter waiter(clock_);
    transport::Channel* const channels[] = {channel.get()};
    ASSERT_THAT(CompleteAll(channels, Soon(), waiter), IsOk());
    ASSERT_THAT(write.status, IsOk());

    std::vector<std::byte> got(payload.size());
    transport::ReadOp read;
    read.generation = write.record.generation;
    read.extent = extent;
    read.into = {absl::MakeSpan(got)};
    ASSERT_THAT(channel->Submit(&read), IsOk());
    ASSERT_THAT(CompleteAll(channels, Soon(), waiter), IsOk());
    ASSERT_THAT(read.status, IsOk());
    EXPECT_EQ(got, payload);
  }

  const TempDir dir_;
  SteadyClock clock_;
  TestLogger log_;
  metrics::Registry registry_;
  FakeMaster master_{5};
};

TEST_F(NodeTest, ASecondNodeOfANameIsToldToChooseAnother) {
  const auto first = Start(Options());
  Node second(Options(), {clock_, registry_, log_.logger()});
  const absl::Status status = second.Start();
  EXPECT_THAT(status, StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(Describe(status), AllOf(HasSubstr("Address already in use"),
                                      HasSubstr("; is a node named n1 running here? choose "
                                                "another --name")));
}

TEST_F(NodeTest, ServesBothTransportsAndTellsTheMaster) {
  const auto node = Start(Options());
  EXPECT_TRUE(master_.WaitFor([&](const v1::NodeMessage& message) {
    const v1::Register& registration = message.register_();
    return registration.name() == "n1" && registration.tcp_address() == node->tcp_address() &&
           registration.shm_path() == dir_.path() + "/n1.sock" &&
           registration.host_id() == LocalHostId() &&
           registration.incarnation() == node->incarnation().value &&
           registration.segments_size() == 1 &&
           registration.segments(0).capacity_bytes() == 1'000'000;
  }));
  EXPECT_TRUE(master_.WaitFor(
      [](const v1::NodeMessage& message) { return message.inventory().complete(); }));
  PutAndGet(*transport::NewTcpTransport({}, clock_), *node, 1);
  PutAndGet(*transport::NewShmTransport({.host_id = LocalHostId()}, clock_), *node, 2);
  for (const std::string key : {"key1", "key2"}) {
    EXPECT_TRUE(master_.WaitFor([&](const v1::NodeMessage& message) {
      const auto& parts = message.seal_report().parts();
      return std::any_of(parts.begin(), parts.end(),
                         [&](const v1::SealedPart& part) { return part.key() == key; });
    }));
  }
  EXPECT_TRUE(node->health().is_healthy);
  EXPECT_EQ(node->health().text, "serving; link to the master live in term 5");
  EXPECT_THAT(registry_.Text(), HasSubstr("moonpool_node_seals_total 2"));
  node->Stop();
  node->Stop();
}

// From one node to another, over shared memory or over TCP, as the master orders.
TEST_F(NodeTest, FetchesPartsFromAnotherNode) {
  const auto is_listed = [](const v1::NodeMessage& message) {
    return message.inventory().complete();
  };
  const auto source = Start(Options());
  ASSERT_TRUE(master_.WaitFor(is_listed));
  PutAndGet(*transport::NewTcpTransport({}, clock_), *source, 1);
  FakeMaster master(5);
  NodeOptions options = Options();
  options.masters = {master.address()};
  options.name = "n2";
  options.shm_path = dir_.path() + "/n2.sock";
  const auto node = Start(options);
  ASSERT_TRUE(master.WaitFor(is_listed));

  const auto copy = [&](uint64_t command_id, uint64_t offset, const std::string& host_id) {
    v1::MasterMessage message;
    v1::Command& command = *message.mutable_command();
    command.set_command_id(command_id);
    command.set_term(5);
    v1::Copy& order = *command.mutable_copy();
    order.mutable_part()->set_generation(Generation::Of(Term{5}, 1).value);
    order.mutable_part()->set_namespace_("default");
    order.mutable_part()->set_key("key1");
    order.mutable_part()->set_object_bytes(50'000);
    order.mutable_part()->set_part_count(1);
    order.mutable_part()->mutable_extent()->set_offset(offset);
    order.mutable_part()->mutable_extent()->set_length(50'000 + kPartHeaderBytes);
    order.set_claim(Generation::Of(Term{5}, 2).value);
    order.mutable_source()->set_name(source->name());
    order.mutable_source()->set_incarnation(source->incarnation().value);
    order.mutable_source()->set_host_id(host_id);
    order.mutable_source()->set_tcp_address(source->tcp_address());
    order.mutable_source()->set_shm_path(source->shm_path());
    order.mutable_source_extent()->set_offset(64 * 1024);
    order.mutable_source_extent()->set_length(50'000 + kPartHeaderBytes);
    order.set_timeout_ms(20'000);
    master.Send(message);
    EXPECT_TRUE(master.WaitFor([&](const v1::NodeMessage& answer) {
      return answer.command_result().command_id() == command_id &&
             answer.command_result().status().code() == 0;
    }));
  };
  copy(1, 0, "another host");
  copy(2, 512 * 1024, LocalHostId());
  EXPECT_TRUE(master.WaitFor([&](const v1::NodeMessage& message) {
    return message.seal_report().parts_size() > 0 && message.seal_report().parts(0).key() == "key1";
  }));
  for (const uint64_t offset : {0, 512 * 1024}) {
    ASSERT_OK_AND_ASSIGN(auto channel,
                         transport::NewTcpTransport({}, clock_)->Connect(PeerOf(*node), Soon()));
    std::vector<std::byte> got(50'000);
    transport::ReadOp read;
    read.generation = Generation::Of(Term{5}, 1);
    read.extent = {SegmentId{0}, offset, 50'000 + kPartHeaderBytes};
    read.into = {absl::MakeSpan(got)};
    ASSERT_THAT(channel->Submit(&read), IsOk());
    transport::PollWaiter waiter(clock_);
    transport::Channel* const channels[] = {channel.get()};
    ASSERT_THAT(CompleteAll(channels, Soon(), waiter), IsOk());
    EXPECT_THAT(read.status, IsOk());
    EXPECT_EQ(got[99], std::byte{99});
  }
  EXPECT_THAT(registry_.Text(), HasSubstr("moonpool_node_copies_total{result=\"ok\"} 2"));
  EXPECT_THAT(registry_.Text(), HasSubstr("moonpool_node_copied_bytes_total 100000"));
}

// What a life has left is looked at when the next begins.
TEST_F(NodeTest, FindsWhatWasDamagedWhileNoNodeWasThere) {
  const TempDir memory("/dev/shm");
  NodeOptions options = Options();
  options.pool_dir = memory.path() + "/pool";
  auto node = Start(options);
  ASSERT_TRUE(master_.WaitFor([](const auto& message) { return message.inventory().complete(); }));
  PutAndGet(*transport::NewTcpTransport({}, clock_), *node, 1);
  PutAndGet(*transport::NewTcpTransport({}, clock_), *node, 2);
  node.reset();
  {
    std::fstream pool(options.pool_dir + "/pool", std::ios::in | std::ios::out | std::ios::binary);
    pool.seekp(64 * 1024 + 30'000);
    pool.put('x');
    ASSERT_TRUE(pool.good());
  }
  node = Start(options);
  // Whichever comes first: it is not listed, or it is listed and then said to be lost.
  EXPECT_TRUE(master_.WaitFor([&](const v1::NodeMessage&) {
    return absl::StrContains(registry_.Text(), "moonpool_node_damaged_parts_total 1");
  }));
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("a part is damaged and forgotten")));
  node.reset();
  options.scrub_bytes_per_second = 0;
  Node next(options, {clock_, registry_, log_.logger()});
  ASSERT_THAT(next.Start(), IsOk());
  EXPECT_THAT(log_.lines(), Contains(AllOf(HasSubstr("the pool is kept"), HasSubstr("parts=1"))))
      << "the journal has forgotten it, too";
}

TEST_F(NodeTest, ServesWithoutAMasterAndSaysSo) {
  NodeOptions options = Options();
  {
    const FakeMaster gone;
    options.masters = {gone.address()};
  }
  const auto node = Start(options);
  EXPECT_THAT(transport::NewTcpTransport({}, clock_)->Connect(PeerOf(*node), Soon()), IsOk());
  EXPECT_TRUE(node->health().is_healthy);
  EXPECT_THAT(node->health().text,
              AnyOf(HasSubstr("waiting"), HasSubstr("connecting"), HasSubstr("registering")));
}

TEST_F(NodeTest, NamesItselfAndFindsASocketWhenNotTold) {
  NodeOptions options = Options();
  options.name.clear();
  options.shm_enabled = false;
  options.data_advertise = "node.example:0";
  const auto node = Start(options);
  EXPECT_THAT(node->tcp_address(), StartsWith("node.example:"));
  const std::string port = node->tcp_address().substr(node->tcp_address().rfind(':') + 1);
  EXPECT_NE(port, "0");
  EXPECT_THAT(node->name(), ::testing::EndsWith("-" + port));
  EXPECT_EQ(node->shm_path(), "");
}

TEST_F(NodeTest, EachLifeHasAnIncarnationOfItsOwn) {
  NodeOptions options = Options();
  const auto first = Start(options);
  const Incarnation incarnation = first->incarnation();
  first->Stop();
  const auto second = Start(options);
  EXPECT_NE(second->incarnation(), incarnation);
}

TEST_F(NodeTest, ASecondNodeOnTheSameSocketIsRefused) {
  const auto first = Start(Options());
  Node second(Options(), {clock_, registry_, log_.logger()});
  EXPECT_FALSE(second.Start().ok());
}

TEST_F(NodeTest, AnAddressInUseIsAnErrorThatNamesTheFlag) {
  const auto first = Start(Options());
  NodeOptions options = Options();
  options.data_listen = first->tcp_address();
  Node second(options, {clock_, registry_, log_.logger()});
  const absl::Status status = second.Start();
  EXPECT_THAT(status, StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(Describe(status),
              AllOf(HasSubstr("Address already in use"), HasSubstr("--data-listen")));
}

TEST_F(NodeTest, StoppedWhileItTakesItsMemory) {
  Node node(Options(), {clock_, registry_, log_.logger()});
  EXPECT_THAT(node.Start([] { return true; }), StatusIs(StatusCode::kCancelled));
}

TEST(NodeOptions, WhatCannotWorkIsRefused) {
  const auto refuses = [](auto change) {
    NodeOptions options;
    change(options);
    return options.Validate().code() == StatusCode::kInvalidArgument;
  };
  EXPECT_THAT(NodeOptions().Validate(), IsOk());
  EXPECT_TRUE(refuses([](NodeOptions& o) { o.masters.clear(); }));
  EXPECT_TRUE(refuses([](NodeOptions& o) { o.name = "two words"; }));
  EXPECT_TRUE(refuses([](NodeOptions& o) { o.name.assign(300, 'n'); }));
  for (const std::string bytes : {"\xff\xfe", "a\nb", "\x1b[31m"}) {
    EXPECT_TRUE(refuses([&](NodeOptions& o) { o.name = bytes; }));
    EXPECT_TRUE(refuses([&](NodeOptions& o) { o.rack = bytes; }));
    EXPECT_TRUE(refuses([&](NodeOptions& o) { o.host_id = bytes; }));
    EXPECT_TRUE(refuses([&](NodeOptions& o) { o.shm_path = "/tmp/" + bytes; }));
    EXPECT_TRUE(refuses([&](NodeOptions& o) { o.data_advertise = bytes + ":1"; }));
  }
  EXPECT_TRUE(refuses([](NodeOptions& o) { o.shm_path = "relative.sock"; }));
  EXPECT_TRUE(refuses([](NodeOptions& o) { o.data_listen = "0.0.0.0:0"; }));
  EXPECT_TRUE(refuses([](NodeOptions& o) { o.data_listen = "[::]:0"; }));
  EXPECT_TRUE(refuses([](NodeOptions& o) { o.data_advertise = "0.0.0.0:1"; }));
  EXPECT_TRUE(refuses([](NodeOptions& o) { o.data_advertise = "nonsense"; }));
  EXPECT_FALSE(refuses([](NodeOptions& o) {
    o.data_listen = "0.0.0.0:0";
    o.data_advertise = "10.0.0.7:0";
  }));
}

}  // namespace
}  // namespace moonpool::storage_node
