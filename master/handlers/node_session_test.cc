#include "master/handlers/node_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "master/handlers/handlers.h"
#include "master/handlers/handlers_fixture.h"

namespace moonpool::master {
namespace {

class NodeSessionTest : public HandlersFixture {
 protected:
  explicit NodeSessionTest(HandlersOptions options = {}, CoreOptions core_options = {})
      : HandlersFixture(options, std::move(core_options)) {}

  static v1::SealedPart Part(const std::string& key, uint64_t offset, uint64_t payload_bytes) {
    v1::SealedPart part;
    part.set_generation(Generation::Of(Term{3}, 1).value);
    part.set_key(key);
    part.mutable_extent()->set_offset(offset);
    part.mutable_extent()->set_length(payload_bytes + kPartHeaderBytes);
    part.set_object_bytes(payload_bytes);
    part.set_part_count(1);
    return part;
  }
  static v1::NodeMessage Inventory(std::vector<v1::SealedPart> parts, bool complete) {
    v1::NodeMessage message;
    for (v1::SealedPart& part : parts) *message.mutable_inventory()->add_parts() = std::move(part);
    message.mutable_inventory()->set_complete(complete);
    return message;
  }
  static v1::NodeMessage Heartbeat(uint64_t sequence) {
    v1::NodeMessage message;
    message.mutable_heartbeat()->set_sequence(sequence);
    return message;
  }
  bool IsThere(const std::string& key) {
    Answer<v1::LocateResponse> answer;
    handlers.Locate(KeysRequest<v1::LocateRequest>({key}), now, answer.done());
    return answer.response.results(0).has_location();
  }
  Node& Registered(absl::string_view name) {
    Node& node = Open(name);
    Send(node, RegisterMessage(name, 64 * kMiB));
    return node;
  }
};

TEST_F(NodeSessionTest, RegisteringIsAnsweredWithTermAndTimes) {
  Node& node = Registered("n1");
  ASSERT_EQ(node.received.size(), 1u);
  const v1::Registered& registered = node.received[0].registered();
  EXPECT_EQ(registered.term(), 7u);
  EXPECT_EQ(registered.version().major(), kWireMajor);
  EXPECT_EQ(registered.heartbeat_interval_ms(), 1000u);
  EXPECT_EQ(registered.session_timeout_ms(), 5000u);
  EXPECT_GT(node.pokes, 0);
  EXPECT_EQ(node.session->name(), "n1");
}

TEST_F(NodeSessionTest, RegisteringIsAnsweredWithTheNewestGrant) {
  Node& first = Registered("n1");
  EXPECT_EQ(Generation{first.received[0].registered().newest_generation()},
            Generation::Of(Term{7}, 0));
  Send(first, Inventory({}, /*complete=*/true));
  Answer<v1::StartPutsResponse> put;
  handlers.StartPuts(PutRequest({"x"}, 10), now, put.done());
  ASSERT_EQ(put.response.results_size(), 1);
  Node& second = Registered("n2");
  EXPECT_EQ(second.received[0].registered().newest_generation(),
            put.response.results(0).grant().generation());
}

TEST_F(NodeSessionTest, ANodeThatHasSeenAHigherTermRaisesOurs) {
  Node& node = Open("n1");
  v1::NodeMessage message = RegisterMessage("n1", kMiB);
  message.mutable_register_()->set_highest_term_seen(20);
  Send(node, message);
  EXPECT_GT(node.received[0].registered().term(), 20u);
  EXPECT_GT(core.term(), Term{20});
}

TEST_F(NodeSessionTest, ATermThatRisesIsToldToEveryNode) {
  Node& first = Registered("n1");
  const size_t before = first.received.size();
  Node& second = Open("n2");
  v1::NodeMessage message = RegisterMessage("n2", kMiB);
  message.mutable_register_()->set_highest_term_seen(20);
  Send(second, message);
  ASSERT_EQ(second.received.size(), 1u) << "it has the term from Registered";
  first.Drain();
  ASSERT_EQ(first.received.size(), before + 1);
  EXPECT_EQ(first.received.back().heartbeat_ack().term(), core.term().value);
}

TEST_F(NodeSessionTest, AForgedTermInASealReportChangesNothing) {
  Node& node = Registered("n1");
  const Term before = core.term();
  v1::SealedPart part = Part("a", 0, 100);
  part.set_generation(Generation::Of(Term{0xfffe0000}, 1).value);
  v1::NodeMessage report;
  *report.mutable_seal_report()->add_parts() = part;
  Send(node, report);
  EXPECT_EQ(core.term(), before);
  EXPECT_FALSE(IsThere("a"));
}

TEST_F(NodeSessionTest, WhatIsInTheInventoryCanBeRead) {
  Node& node = Registered("n1");
  Send(node, Inventory({Part("a", 0, 100)}, /*complete=*/false));
  EXPECT_TRUE(IsThere("a"));
  // No grant before the inventory is complete.
  Answer<v1::StartPutsResponse> put;
  handlers.StartPuts(PutRequest({"x"}, 10), now, put.done());
  EXPECT_EQ(WireReason(put.response.results(0).status()), ErrorReason::kNoNodes);
  Send(node, Inventory({Part("b", 4096, 100)}, /*complete=*/true));
  EXPECT_TRUE(IsThere("b"));
  Grant("x", 10);
}

TEST_F(NodeSessionTest, ASealReportIsACommit) {
  Node& node = AddNode("n1", 64 * kMiB);
  const v1::Grant grant = Grant("k", 100);
  v1::LocateRequest request = KeysRequest<v1::LocateRequest>({"k"});
  request.set_wait_for_writer(true);
  Answer<v1::LocateResponse> located;
  handlers.Locate(request, now, located.done());
  v1::NodeMessage report;
  v1::SealedPart* part = report.mutable_seal_report()->add_parts();
  *part = Part("k", 0, 100);
  part->set_generation(grant.generation());
  *part->mutable_extent() = grant.replicas(0).parts(0).extent();
  Send(node, report);
  EXPECT_TRUE(located.is_there()) << "who waits for the writer is answered";
  EXPECT_TRUE(IsThere("k"));
}

TEST_F(NodeSessionTest, HeartbeatsAreAcknowledgedAndKeepTheSession) {
  Node& node = AddNode("n1", 64 * kMiB);
  node.received.clear();
  for (uint64_t i = 1; i <= 5; ++i) {
    Advance(absl::Seconds(3));
    Send(node, Heartbeat(i));
  }
  ASSERT_EQ(node.received.size(), 5u);
  EXPECT_EQ(node.received[4].heartbeat_ack().sequence(), 5u);
  EXPECT_FALSE(node.session->is_finished());
}

TEST_F(NodeSessionTest, OnlyTheNewestHeartbeatIsAcknowledgedToANodeThatDoesNotListen) {
  Node& node = AddNode("n1", 64 * kMiB);
  for (uint64_t i = 1; i <= 1000; ++i) handlers.OnNodeMessage(*node.session, Heartbeat(i), now);
  node.received.clear();
  node.Drain();
  ASSERT_EQ(node.received.size(), 1u);
  EXPECT_EQ(node.received[0].heartbeat_ack().sequence(), 1000u);
}

TEST_F(NodeSessionTest, SilenceEndsTheSession) {
  Node& node = AddNode("n1", 64 * kMiB);
  Put("a", 100);
  Advance(absl::Seconds(5));
  EXPECT_TRUE(node.session->is_finished());
  EXPECT_TRUE(node.session->is_cut_off());
  EXPECT_THAT(node.session->end_status(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_FALSE(IsThere("a"));
  EXPECT_EQ(handlers.counts().sessions_timed_out, 1u);
  // It comes back, and so does what it holds.
  Node& again = Registered("n1");
  EXPECT_TRUE(again.received[0].has_registered());
}

TEST_F(NodeSessionTest, AStreamThatNeverRegistersIsEnded) {
  Node& node = Open("?");
  Advance(absl::Seconds(5));
  EXPECT_TRUE(node.session->is_finished());
}

TEST_F(NodeSessionTest, TheFirstMessageMustBeRegister) {
  Node& node = Open("?");
  Send(node, Heartbeat(1));
  ASSERT_EQ(node.received.size(), 1u);
  EXPECT_TRUE(node.received[0].has_refused());
  EXPECT_TRUE(node.session->is_finished());
  EXPECT_EQ(handlers.counts().protocol_errors, 1u);
  Send(node, RegisterMessage("n1", kMiB));  // too late
  EXPECT_EQ(node.received.size(), 1u);
  EXPECT_EQ(handlers.counts().registrations, 0u);
}

TEST_F(NodeSessionTest, BadRegistrationsAreRefused) {
  const auto refusal = [&](const v1::NodeMessage& message) {
    Node& node = Open("?");
    Send(node, message);
    EXPECT_EQ(node.received.size(), 1u);
    EXPECT_TRUE(node.session->is_finished());
    return StatusFromProto(node.received[0].refused().status());
  };
  v1::NodeMessage message = RegisterMessage("n1", kMiB);
  message.mutable_register_()->mutable_version()->set_major(kWireMajor + 1);
  EXPECT_THAT(refusal(message),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kPeerVersion));
  EXPECT_THAT(refusal(RegisterMessage("", kMiB)), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(refusal(RegisterMessage(std::string(5000, 'n'), kMiB)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(refusal(RegisterMessage("n1", kMiB, /*incarnation=*/0)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(refusal(RegisterMessage("n1", std::numeric_limits<uint64_t>::max())),
              StatusIs(absl::StatusCode::kInvalidArgument));
  message = RegisterMessage("n1", kMiB);
  for (int i = 0; i < 2000; ++i) message.mutable_register_()->add_segments()->set_segment(9);
  EXPECT_THAT(refusal(message), StatusIs(absl::StatusCode::kInvalidArgument));
  message = RegisterMessage("n1", kMiB);
  message.mutable_register_()->set_highest_term_seen(~uint32_t{0});
  EXPECT_THAT(refusal(message), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(core.term(), Term{7});
  EXPECT_EQ(handlers.counts().registrations_refused, 7u);
}

TEST_F(NodeSessionTest, ANewerSessionOfTheSameNodeReplacesTheOlder) {
  Node& old_one = AddNode("n1", 64 * kMiB);
  Put("a", 100);
  Node& new_one = Registered("n1");
  EXPECT_TRUE(old_one.session->is_finished());
  EXPECT_TRUE(old_one.session->is_cut_off());
  EXPECT_THAT(old_one.session->end_status(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_FALSE(new_one.session->is_finished());
  EXPECT_EQ(new_one.received[0].registered().node_id(), old_one.id);
  // What the old one still says, and its end, change nothing.
  Send(old_one, Heartbeat(1));
  handlers.CloseSession(*old_one.session, now);
  Send(new_one, Inventory({}, /*complete=*/true));
  Grant("b", 100);
  EXPECT_EQ(handlers.counts().sessions_replaced, 1u);
}

class SmallDebtsTest : public NodeSessionTest {
 protected:
  SmallDebtsTest() : NodeSessionTest({}, CoreOptions{.max_debts = 1}) {}
};

TEST_F(SmallDebtsTest, ANodeWithMoreToForgetThanIsListedRegistersAnew) {
  Node& node = AddNode("n1", 64 * kMiB);
  Abort(Grant("a", 100));
  Abort(Grant("b", 100));
  Advance(absl::Milliseconds(100));
  EXPECT_FALSE(node.session->is_finished()) << "there is still a debt, and room for one";
  ConfirmCommands(node);
  Advance(absl::Milliseconds(100));
  EXPECT_TRUE(node.session->is_finished());
  EXPECT_THAT(node.session->end_status(),
              Fails(absl::StatusCode::kAborted, ErrorReason::kLimitReached));
  EXPECT_TRUE(Registered("n1").received[0].has_registered());
}

TEST_F(NodeSessionTest, AnotherIncarnationIsRefusedWhileTheNodeIsInSession) {
  Node& node = AddNode("n1", 64 * kMiB);
  Node& impostor = Open("n1");
  Send(impostor, RegisterMessage("n1", 64 * kMiB, /*incarnation=*/2));
  EXPECT_TRUE(impostor.received[0].has_refused());
  EXPECT_FALSE(node.session->is_finished());
}

TEST_F(NodeSessionTest, OneBadRecordIsQuarantinedAndTheRestIsUsed) {
  Node& node = Registered("n1");
  std::vector<v1::SealedPart> parts;
  parts.push_back(Part("good1", 0, 100));
  parts.push_back(Part("outside", 64 * kMiB - 10, 100));
  parts.push_back(Part("wraps", ~uint64_t{0} - 10, 100));
  parts.push_back(Part("foreign", 4096, 100));
  parts.back().mutable_extent()->set_segment(9);
  parts.push_back(Part("", 8192, 100));
  parts.push_back(Part(std::string(kMaxKeyBytes + 1, 'k'), 8192, 100));
  parts.push_back(Part("sizes", 8192, 100));
  parts.back().set_object_bytes(101);
  parts.push_back(Part("short", 8192, 100));
  parts.back().mutable_extent()->set_length(3);
  parts.push_back(Part("no parts", 8192, 100));
  parts.back().set_part_count(0);
  parts.push_back(Part("index", 8192, 100));
  parts.back().set_part_index(1);
  parts.push_back(Part("replica", 8192, 100));
  parts.back().set_replica_index(1000);
  parts.push_back(Part("generation", 8192, 100));
  parts.back().set_generation(~uint64_t{0});
  parts.push_back(Part("good2", 8192, 100));
  Send(node, Inventory(parts, /*complete=*/true));
  EXPECT_EQ(node.session->records_quarantined(), 11u);
  EXPECT_EQ(handlers.counts().records_quarantined, 11u);
  EXPECT_TRUE(IsThere("good1"));
  EXPECT_TRUE(IsThere("good2"));
  EXPECT_FALSE(IsThere("outside"));
  EXPECT_LT(core.term(), Term{1000});
  EXPECT_THAT(core.CheckInvariants(), IsOk());
}

TEST_F(NodeSessionTest, OverlappingExtentsDoNotBecomeTwoObjects) {
  Node& node = Registered("n1");
  Send(node, Inventory({Part("a", 0, 10000), Part("b", 4096, 10000)}, /*complete=*/true));
  EXPECT_NE(IsThere("a"), IsThere("b"));
  EXPECT_THAT(core.CheckInvariants(), IsOk());
}

TEST_F(NodeSessionTest, MessagesOutOfOrderAreIgnoredAndTooManyEndTheSession) {
  Node& node = AddNode("n1", 64 * kMiB);
  Send(node, RegisterMessage("n1", 64 * kMiB));
  Send(node, Inventory({Part("late", 0, 100)}, /*complete=*/false));
  Send(node, v1::NodeMessage());
  EXPECT_FALSE(IsThere("late"));
  EXPECT_EQ(node.session->protocol_errors(), 3u);
  EXPECT_FALSE(node.session->is_finished());
  for (int i = 0; i < 100; ++i) Send(node, v1::NodeMessage());
  EXPECT_TRUE(node.session->is_finished());
  EXPECT_THAT(node.session->end_status(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(NodeSessionTest, ResultsOfCommandsThatNobodyGaveChangeNothing) {
  Node& node = AddNode("n1", 64 * kMiB);
  v1::NodeMessage result;
  result.mutable_command_result()->set_command_id(~uint64_t{0});
  result.mutable_command_result()->mutable_status()->set_code(-5);
  Send(node, result);
  EXPECT_FALSE(node.session->is_finished());
  EXPECT_THAT(core.CheckInvariants(), IsOk());
}

TEST_F(NodeSessionTest, ACopyIsOrderedAndItsResultTaken) {
  AddNode("n1", 64 * kMiB);
  auto request = PutRequest({"key"}, 100);
  request.set_replicas(2);
  request.set_min_replicas(1);
  Answer<v1::StartPutsResponse> answer;
  handlers.StartPuts(request, now, answer.done());
  const v1::Grant grant = answer.response.results(0).grant();
  Commit(grant);
  Node& target = AddNode("n2", 64 * kMiB);
  for (uint64_t i = 1; i <= 2; ++i) {
    Advance(absl::Seconds(3));
    for (const auto& node : nodes) Send(*node, Heartbeat(i));
  }
  Advance(absl::Milliseconds(20));
  std::erase_if(target.received,
                [](const v1::MasterMessage& message) { return !message.has_command(); });
  ASSERT_EQ(target.received.size(), 1u);
  const v1::Command command = target.received[0].command();
  EXPECT_EQ(command.term(), 7u);
  ASSERT_TRUE(command.has_copy());
  const v1::Copy& copy = command.copy();
  EXPECT_EQ(copy.part().generation(), grant.generation());
  EXPECT_EQ(copy.part().namespace_(), "default");
  EXPECT_EQ(copy.part().key(), "key");
  EXPECT_EQ(copy.part().extent().length(), 100 + kPartHeaderBytes);
  EXPECT_EQ(copy.part().object_bytes(), 100u);
  EXPECT_EQ(copy.part().part_count(), 1u);
  EXPECT_EQ(copy.part().replica_index(), 1u);
  EXPECT_GT(copy.claim(), grant.generation());
  EXPECT_EQ(copy.source().name(), "n1");
  EXPECT_EQ(copy.source().tcp_address(), "127.0.0.1:1");
  EXPECT_EQ(copy.source_extent().length(), 100 + kPartHeaderBytes);
  EXPECT_GT(copy.timeout_ms(), 0u);
  v1::NodeMessage result;
  result.mutable_command_result()->set_command_id(command.command_id());
  Send(target, result);
  EXPECT_EQ(core.GetStatus(now).short_objects, 0u);
}

TEST_F(NodeSessionTest, PartsThatAreLostAreMissed) {
  Node& node = AddNode("n1", 64 * kMiB);
  const v1::Grant grant = Grant("key", 100);
  Commit(grant);
  v1::NodeMessage message;
  v1::LostPart* const part = message.mutable_parts_lost()->add_parts();
  part->set_generation(grant.generation());
  *part->mutable_extent() = grant.replicas(0).parts(0).extent();
  Send(node, message);
  Advance(absl::Milliseconds(20));
  Answer<v1::ExistsResponse> answer;
  handlers.Exists(KeysRequest<v1::ExistsRequest>({"key"}), now, answer.done());
  EXPECT_EQ(WireReason(answer.response.results(0)), ErrorReason::kChecksumMismatch);
}

TEST_F(NodeSessionTest, CommandsAreRepeatedUntilTheyAreConfirmed) {
  Node& node = AddNode("n1", 64 * kMiB);
  Put("a", 100);
  node.received.clear();
  Answer<v1::RemoveResponse> removed;
  handlers.Remove(KeysRequest<v1::RemoveRequest>({"a"}, absl::Seconds(60)), now, removed.done());
  node.Drain();
  ASSERT_EQ(node.received.size(), 1u);
  const uint64_t id = node.received[0].command().command_id();
  const v1::Free& free = node.received[0].command().free();
  ASSERT_EQ(free.generations_size(), 1);
  EXPECT_EQ(free.newest(), free.generations(0));
  EXPECT_EQ(free.oldest_open(), free.newest() + 1) << "it was committed";
  EXPECT_EQ(node.received[0].command().term(), 7u);
  for (uint64_t i = 0; i < 6; ++i) {
    Advance(absl::Seconds(1));
    Send(node, Heartbeat(i));
  }
  int repeats = 0;
  for (const auto& message : node.received) {
    if (message.has_command() && message.command().command_id() == id) ++repeats;
  }
  EXPECT_GE(repeats, 2);
  ConfirmCommands(node);
  EXPECT_TRUE(removed.is_there());
}

class BoundedQueueTest : public NodeSessionTest {
 protected:
  BoundedQueueTest() : NodeSessionTest({.max_queued_generations = 3}) {}
};

TEST_F(BoundedQueueTest, CommandsForANodeThatDoesNotListenAreDroppedAndCounted) {
  Node& node = AddNode("n1", 64 * kMiB);
  Put("a", 100);
  Put("b", 100);
  Put("c", 100);
  node.received.clear();
  Answer<v1::RemoveResponse> removed[3];
  const char* keys[] = {"a", "b", "c"};
  for (int i = 0; i < 3; ++i) {
    handlers.Remove(KeysRequest<v1::RemoveRequest>({keys[i]}, absl::Seconds(60)), now,
                    removed[i].done());
  }
  EXPECT_EQ(handlers.counts().commands_dropped, 1u);
  ConfirmCommands(node);
  EXPECT_TRUE(removed[1].is_there());
  EXPECT_EQ(removed[2].count, 0);
  // The core repeats it.
  for (uint64_t i = 0; i < 6; ++i) {
    Advance(absl::Seconds(1));
    handlers.OnNodeMessage(*node.session, Heartbeat(i), now);
  }
  ConfirmCommands(node);
  EXPECT_TRUE(removed[2].is_there());
}

}  // namespace
}  // namespace moonpool::master
