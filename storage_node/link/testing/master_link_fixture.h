// A node's session with a scripted master: what the tests of the link share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/rpc/status_proto.h"
#include "common/testing/test_logger.h"
#include "common/version.h"
#include "storage_node/link/master_link.h"
#include "storage_node/pool/testing/test_pool.h"

namespace moonpool::storage_node {

inline constexpr auto kHeartbeat = absl::Milliseconds(100);
inline constexpr auto kTimeout = absl::Milliseconds(350);

inline v1::MasterMessage Registered(uint32_t term, Generation newest = {}) {
  v1::MasterMessage message;
  v1::Registered& registered = *message.mutable_registered();
  registered.mutable_version()->set_major(kWireMajor);
  registered.mutable_version()->set_minor(kWireMinor);
  registered.set_term(term);
  registered.set_node_id(3);
  registered.set_newest_generation(newest.value);
  registered.set_heartbeat_interval_ms(
      static_cast<uint64_t>(absl::ToInt64Milliseconds(kHeartbeat)));
  registered.set_session_timeout_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(kTimeout)));
  return message;
}
inline v1::MasterMessage Ack(uint64_t sequence) {
  v1::MasterMessage message;
  message.mutable_heartbeat_ack()->set_sequence(sequence);
  return message;
}
inline v1::MasterMessage Free(uint64_t command_id, uint32_t term,
                              std::vector<Generation> generations) {
  v1::MasterMessage message;
  v1::Command& command = *message.mutable_command();
  command.set_command_id(command_id);
  command.set_term(term);
  command.mutable_free();
  for (const Generation g : generations) command.mutable_free()->add_generations(g.value);
  return message;
}

inline v1::MasterMessage NotLeader(const std::string& leader) {
  v1::MasterMessage message;
  StatusToProto(MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kNotLeader,
                          "this master does not lead", {.leader = leader}),
                message.mutable_refused()->mutable_status());
  return message;
}

class MasterLinkTest : public ::testing::Test {
 protected:
  explicit MasterLinkTest(ExtentIndexOptions index_options = {}, SealJournal* journal = nullptr)
      : pool_(2, index_options, journal) {}

  LinkOutput Tick(bool has_room = true) { return link_.Tick(now_, has_room); }
  LinkOutput TickAfter(absl::Duration duration) {
    now_ += duration;
    return Tick();
  }
  LinkOutput Receive(const v1::MasterMessage& message) { return link_.OnMessage(message, now_); }

  // Through back-off, connect and registration.
  void Connect() {
    while (link_.state() == LinkState::kWaiting) {
      const LinkOutput out = Tick();
      if (!out.connect.has_value()) now_ = out.wake_at;
    }
    link_.OnConnected(now_);
    ASSERT_EQ(link_.state(), LinkState::kRegistering);
  }
  void Register(uint32_t term = 1) {
    Connect();
    Receive(Registered(term));
    ASSERT_EQ(link_.state(), LinkState::kUploading);
  }
  // Everything that is sent until the inventory is complete.
  std::vector<v1::NodeMessage> Upload() {
    std::vector<v1::NodeMessage> sent;
    while (link_.state() == LinkState::kUploading) {
      for (auto& message : Tick().send) sent.push_back(std::move(message));
    }
    return sent;
  }
  void GoLive(uint32_t term = 1) {
    Register(term);
    Upload();
    ASSERT_EQ(link_.state(), LinkState::kLive);
  }
  void AckAll() {
    for (uint64_t sequence = 1; sequence < 100; ++sequence) Receive(Ack(sequence));
  }

  absl::Time now_ = absl::UnixEpoch() + absl::Seconds(100);
  TestLogger log_;
  metrics::Registry registry_;
  LinkMetrics metrics_{registry_};
  TestPool pool_;
  static constexpr size_t kCopiesMax = 4;
  CopyQueue copies_{kCopiesMax};
  MasterLinkOptions options_{.masters = {"a:1", "b:2"}, .parts_per_message = 2};
  MasterLink link_{{.name = "n1",
                    .incarnation = Incarnation{77},
                    .host_id = "host",
                    .rack = "r1",
                    .tcp_address = "10.0.0.1:7",
                    .shm_path = "/run/n1.sock"},
                   options_,
                   {pool_.index(), copies_, metrics_, log_.logger()},
                   Random(1)};
};

inline std::vector<std::string> Keys(const std::vector<v1::NodeMessage>& messages) {
  std::vector<std::string> keys;
  for (const auto& message : messages) {
    for (const auto& part : message.inventory().parts()) keys.push_back("inventory " + part.key());
    for (const auto& part : message.seal_report().parts()) keys.push_back("report " + part.key());
  }
  return keys;
}

}  // namespace moonpool::storage_node
