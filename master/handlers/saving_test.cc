// Answers that wait until what they promise is durable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "master/handlers/handlers_fixture.h"
#include "master/meta/records.h"

namespace moonpool::master {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

const absl::Status kDiskFull = absl::ResourceExhaustedError("no space left on device");

// What masters before have left: "models" with a fingerprint, and no node.
DurableState Left() {
  return {.term = Term{6}, .is_registry_closed = true, .namespaces = {{"models", "f1"}}};
}

class SavingTest : public HandlersFixture {
 protected:
  explicit SavingTest(HandlersOptions options = {}) : HandlersFixture(options, Left()) {}

  v1::OpenNamespaceRequest OpenRequest(const std::string& name, const std::string& fingerprint) {
    auto request = NewRequest<v1::OpenNamespaceRequest>();
    request.mutable_header()->set_namespace_(name);
    request.set_fingerprint(fingerprint);
    return request;
  }
  // From a node that has seen this term.
  v1::NodeMessage RegisterFrom(absl::string_view name, uint32_t term) {
    v1::NodeMessage message = RegisterMessage(name, 4 * kMiB);
    message.mutable_register_()->set_highest_term_seen(term);
    return message;
  }
};

TEST_F(SavingTest, ANamespaceIsOpenOnceItIsDurable) {
  Answer<v1::OpenNamespaceResponse> answer;
  handlers.OpenNamespace(OpenRequest("other", "f2"), now, answer.done());
  EXPECT_FALSE(answer.is_there());
  ASSERT_TRUE(EndWrite());
  EXPECT_THAT(last_write, ElementsAre(EncodeChange(DurableNamespace{"other", "f2"})));
  ASSERT_TRUE(answer.is_there());
  EXPECT_THAT(answer.status, IsOk());
  EXPECT_EQ(answer.response.fingerprint(), "f2");
  Answer<v1::OpenNamespaceResponse> again;
  handlers.OpenNamespace(OpenRequest("other", "f2"), now, again.done());
  EXPECT_TRUE(again.is_there()) << "that is known";
  EXPECT_FALSE(EndWrite());
}

TEST_F(SavingTest, AFingerprintHoldsForTheNextMaster) {
  Answer<v1::OpenNamespaceResponse> other;
  handlers.OpenNamespace(OpenRequest("models", "f2"), now, other.done());
  EXPECT_THAT(other.status,
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kFingerprintMismatch));
  Answer<v1::OpenNamespaceResponse> same;
  handlers.OpenNamespace(OpenRequest("models", "f1"), now, same.done());
  EXPECT_TRUE(same.is_there());
  EXPECT_THAT(same.status, IsOk());
  EXPECT_FALSE(EndWrite()) << "it is durable already";
}

TEST_F(SavingTest, ANamespaceThatCannotBeMadeDurableIsRefusedUntilItCan) {
  Answer<v1::OpenNamespaceResponse> first;
  handlers.OpenNamespace(OpenRequest("other", "f2"), now, first.done());
  ASSERT_TRUE(EndWrite(kDiskFull));
  EXPECT_THAT(first.status, Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kNotSaved));
  Answer<v1::OpenNamespaceResponse> known;
  handlers.OpenNamespace(OpenRequest("models", "f1"), now, known.done());
  EXPECT_THAT(known.status, IsOk()) << "readers are not concerned";
  Answer<v1::OpenNamespaceResponse> second;
  handlers.OpenNamespace(OpenRequest("other", "f2"), now, second.done());
  EXPECT_THAT(second.status, Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kNotSaved));
  EXPECT_FALSE(EndWrite()) << "not at once";
  EXPECT_LE(handlers.NextWakeup(), now + absl::Seconds(1));
  Advance(absl::Seconds(1));
  ASSERT_TRUE(EndWrite());
  Answer<v1::OpenNamespaceResponse> third;
  handlers.OpenNamespace(OpenRequest("other", "f2"), now, third.done());
  EXPECT_THAT(third.status, IsOk());
}

TEST_F(SavingTest, ASlowStoreEndsTheCallAtItsDeadline) {
  Answer<v1::OpenNamespaceResponse> answer;
  handlers.OpenNamespace(OpenRequest("other", "f2"), now, answer.done());
  const std::optional<MetaBatch> slow = handlers.TakeWrite(now);
  ASSERT_TRUE(slow.has_value());
  Advance(absl::Seconds(9));
  EXPECT_FALSE(answer.is_there());
  Advance(absl::Seconds(1));
  ASSERT_TRUE(answer.is_there());
  EXPECT_THAT(answer.status, Fails(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline));
  handlers.OnWritten(absl::OkStatus(), now);
  Answer<v1::OpenNamespaceResponse> again;
  handlers.OpenNamespace(OpenRequest("other", "f2"), now, again.done());
  EXPECT_THAT(again.status, IsOk());
}

TEST_F(SavingTest, ACallerWhoHasGoneWaitsNoMore) {
  Answer<v1::OpenNamespaceResponse> answer;
  const CallId call = handlers.OpenNamespace(OpenRequest("other", "f2"), now, answer.done());
  handlers.Cancel(call, now);
  EXPECT_THAT(answer.status, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_TRUE(EndWrite());
  EXPECT_TRUE(answer.is_there());
}

class FewWaiters : public SavingTest {
 protected:
  FewWaiters() : SavingTest({.max_waiters = 0}) {}
};

TEST_F(FewWaiters, ACallThatCannotWaitIsRefused) {
  Answer<v1::OpenNamespaceResponse> answer;
  handlers.OpenNamespace(OpenRequest("other", "f2"), now, answer.done());
  EXPECT_THAT(answer.status,
              Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
  Node& node = Open("n1");
  Send(node, RegisterFrom("n1", 9));
  Answer<v1::StartPutsResponse> put;
  handlers.StartPuts(PutRequest({"a"}, 10), now, put.done());
  EXPECT_THAT(put.status, Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
}

TEST_F(SavingTest, ANodeIsRegisteredOnceItIsDurable) {
  Node& node = Open("n1");
  Send(node, RegisterMessage("n1", 4 * kMiB));
  EXPECT_TRUE(node.received.empty());
  ASSERT_TRUE(EndWrite());
  EXPECT_THAT(last_write,
              ElementsAre(EncodeChange(DurableNode{"n1", Incarnation{1}, Generation::Of({7}, 0)})));
  node.Drain();
  ASSERT_EQ(node.received.size(), 1u);
  EXPECT_TRUE(node.received[0].has_registered());
  EXPECT_GE(node.pokes, 1);
}

TEST_F(SavingTest, ANodeThatLeavesBeforeItIsRegisteredIsForgotten) {
  Node& node = Open("n1");
  Send(node, RegisterMessage("n1", 4 * kMiB));
  handlers.CloseSession(*node.session, now);
  EXPECT_TRUE(EndWrite());
  node.Drain();
  EXPECT_TRUE(node.received.empty());
}

TEST_F(SavingTest, ANodeIsForgottenOnceThatIsDurable) {
  Node& node = Open("n1");
  Send(node, RegisterMessage("n1", 4 * kMiB));
  ASSERT_TRUE(EndWrite());
  handlers.CloseSession(*node.session, now);
  v1::ForgetNodeRequest request;
  FillVersion(request.mutable_version());
  request.set_name("n1");
  Answer<v1::ForgetNodeResponse> answer;
  handlers.ForgetNode(request, now, answer.done());
  EXPECT_FALSE(answer.is_there());
  ASSERT_TRUE(EndWrite());
  EXPECT_THAT(last_write, ElementsAre(EncodeChange(NodeForgotten{"n1"})));
  EXPECT_THAT(answer.status, IsOk());
}

TEST_F(SavingTest, ADrainIsAnsweredOnceItIsDurable) {
  Node& node = Open("n1");
  Send(node, RegisterMessage("n1", 4 * kMiB));
  ASSERT_TRUE(EndWrite());
  v1::DrainNodeRequest request;
  FillVersion(request.mutable_version());
  request.set_name("n1");
  Answer<v1::DrainNodeResponse> answer;
  handlers.DrainNode(request, now, answer.done());
  EXPECT_FALSE(answer.is_there());
  ASSERT_TRUE(EndWrite());
  ASSERT_EQ(last_write.size(), 1u);
  EXPECT_EQ(last_write[0].key, "drain/n1");
  ASSERT_TRUE(answer.is_there());
  EXPECT_THAT(answer.status, IsOk());
  v1::ListNodesRequest list;
  FillVersion(list.mutable_version());
  Answer<v1::ListNodesResponse> nodes_answer;
  handlers.ListNodes(list, now, nodes_answer.done());
  EXPECT_TRUE(nodes_answer.response.nodes(0).has_drain());
  // Asked for once more it is done already.
  Answer<v1::DrainNodeResponse> again;
  handlers.DrainNode(request, now, again.done());
  EXPECT_TRUE(again.is_there());
  request.set_name("n7");
  Answer<v1::DrainNodeResponse> unknown;
  handlers.DrainNode(request, now, unknown.done());
  EXPECT_EQ(unknown.status.code(), absl::StatusCode::kNotFound);
}

TEST_F(SavingTest, WhatIsOlderMovesToANewNodeOnceTheNextMasterWouldTakeItFromThere) {
  const auto join = [&](absl::string_view name) -> Node& {
    Node& node = Open(name);
    Send(node, RegisterMessage(name, 4 * kMiB));
    EXPECT_TRUE(EndWrite());
    v1::NodeMessage complete;
    complete.mutable_inventory()->set_complete(true);
    Send(node, complete);
    return node;
  };
  Node& full = join("n1");
  Put("a", 10);
  Node& empty = join("n2");
  v1::DrainNodeRequest request;
  FillVersion(request.mutable_version());
  request.set_name("n1");
  Answer<v1::DrainNodeResponse> answer;
  handlers.DrainNode(request, now, answer.done());
  const auto is_copied_within = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      Advance(absl::Seconds(1));
      v1::NodeMessage alive;
      alive.mutable_heartbeat()->set_sequence(1);
      Send(full, alive);
      Send(empty, alive);
    }
    return std::any_of(empty.received.begin(), empty.received.end(), [](const auto& message) {
      return message.has_command() && message.command().has_copy();
    });
  };
  EXPECT_FALSE(is_copied_within(20));
  while (EndWrite()) {
  }
  EXPECT_TRUE(is_copied_within(20));
}

// One of the two nodes of the registry is here.
class SavingRemoveTest : public HandlersFixture {
 protected:
  SavingRemoveTest()
      : HandlersFixture({}, {.term = Term{6},
                             .is_registry_closed = true,
                             .nodes = {{"n1", Incarnation{1}, {}}, {"n2", Incarnation{1}, {}}}}),
        node(AddNode("n1", 4 * kMiB)) {}
  void Remove(std::vector<std::string> keys) {
    handlers.Remove(KeysRequest<v1::RemoveRequest>(std::move(keys)), now, answer.done());
  }
  bool Exists(const std::string& key) {
    Answer<v1::ExistsResponse> exists;
    handlers.Exists(KeysRequest<v1::ExistsRequest>({key}), now, exists.done());
    return exists.response.results(0).code() == 0;
  }
  ErrorReason Reason(int index) const { return WireReason(answer.response.results(index)); }

  Node& node;
  Answer<v1::RemoveResponse> answer;
};

TEST_F(SavingRemoveTest, IsAnsweredOnceItIsConfirmedAndDurable) {
  Put("a", 10);
  Remove({"a", "never"});
  ConfirmCommands(node);
  EXPECT_FALSE(answer.is_there());
  ASSERT_TRUE(EndWrite());
  EXPECT_EQ(last_write.size(), 2u);
  ASSERT_TRUE(answer.is_there());
  EXPECT_EQ(answer.response.results(0).code(), 0);
  EXPECT_EQ(Reason(1), ErrorReason::kNeverStored);
}

TEST_F(SavingRemoveTest, IsNotConfirmedWhenItCannotBeMadeDurable) {
  Put("a", 10);
  Remove({"a", "never"});
  ASSERT_TRUE(EndWrite(kDiskFull));
  EXPECT_FALSE(answer.is_there()) << "its holder has not confirmed";
  ConfirmCommands(node);
  ASSERT_TRUE(answer.is_there());
  EXPECT_EQ(Reason(0), ErrorReason::kNotSaved);
  EXPECT_EQ(Reason(1), ErrorReason::kNotSaved);
  EXPECT_FALSE(Exists("a")) << "it is gone for readers";
  Advance(absl::Seconds(1));
  ASSERT_TRUE(EndWrite());
  Answer<v1::RemoveResponse> again;
  handlers.Remove(KeysRequest<v1::RemoveRequest>({"a"}), now, again.done());
  ASSERT_TRUE(again.is_there());
  EXPECT_EQ(WireReason(again.response.results(0)), ErrorReason::kRemoved);
}

TEST_F(SavingRemoveTest, EndsAtItsDeadlineWhenTheStoreIsSlow) {
  Put("a", 10);
  Remove({"a", "never"});
  ConfirmCommands(node);
  Advance(absl::Seconds(4));
  v1::NodeMessage alive;
  alive.mutable_heartbeat()->set_sequence(1);
  Send(node, alive);
  Advance(absl::Seconds(6));
  ASSERT_TRUE(answer.is_there());
  EXPECT_EQ(Reason(0), ErrorReason::kDeadline);
  EXPECT_EQ(Reason(1), ErrorReason::kDeadline);
}

TEST_F(SavingRemoveTest, WaitsForTheEndOfANodeThatItWouldHaveWaitedFor) {
  Put("a", 10);
  handlers.CloseSession(*node.session, now);
  Remove({"a"});
  ASSERT_TRUE(EndWrite());
  v1::ForgetNodeRequest forget;
  FillVersion(forget.mutable_version());
  forget.set_name("n1");
  Answer<v1::ForgetNodeResponse> forgotten;
  handlers.ForgetNode(forget, now, forgotten.done());
  EXPECT_FALSE(answer.is_there()) << "the next master would take the key from n1";
  ASSERT_TRUE(EndWrite());
  EXPECT_TRUE(forgotten.is_there());
  ASSERT_TRUE(answer.is_there());
  EXPECT_EQ(answer.response.results(0).code(), 0);
}

class FewUnsaved : public SavingTest {
 protected:
  FewUnsaved() : SavingTest({.max_unsaved_changes = 1}) {}
};

TEST_F(FewUnsaved, NodesAreRefusedThatCouldNotBeKept) {
  Node& first = Open("n1");
  Send(first, RegisterMessage("n1", 4 * kMiB));
  Node& second = Open("n2");
  Send(second, RegisterMessage("n2", 4 * kMiB));
  ASSERT_EQ(second.received.size(), 1u);
  EXPECT_EQ(WireReason(second.received[0].refused().status()), ErrorReason::kLimitReached);
  ASSERT_TRUE(EndWrite());
  first.Drain();
  EXPECT_TRUE(first.received[0].has_registered());
}

TEST_F(FewUnsaved, RemovalsAreRefusedThatCouldNotBeKept) {
  Node& node = Open("n1");
  Send(node, RegisterMessage("n1", 4 * kMiB));
  Answer<v1::RemoveResponse> answer;
  handlers.Remove(KeysRequest<v1::RemoveRequest>({"a"}), now, answer.done());
  EXPECT_THAT(answer.status,
              Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
}

TEST_F(SavingTest, ANodeThatRaisesTheTermIsRegisteredOnceItIsDurable) {
  Node& node = Open("n1");
  Send(node, RegisterFrom("n1", 9));
  EXPECT_TRUE(node.received.empty());
  v1::NodeMessage early;
  early.mutable_inventory()->set_complete(true);
  Send(node, early);
  EXPECT_EQ(node.session->protocol_errors(), 1u) << "it was not told that it is registered";
  ASSERT_TRUE(EndWrite());
  EXPECT_THAT(last_write, Contains(EncodeChange(Term{10})));
  node.Drain();
  ASSERT_EQ(node.received.size(), 1u);
  EXPECT_EQ(node.received[0].registered().term(), 10u);
}

TEST_F(SavingTest, ANodeIsRefusedWhenTheTermCannotBeMadeDurable) {
  Node& node = Open("n1");
  Send(node, RegisterFrom("n1", 9));
  ASSERT_TRUE(EndWrite(kDiskFull));
  node.Drain();
  ASSERT_EQ(node.received.size(), 1u);
  EXPECT_EQ(WireReason(node.received[0].refused().status()), ErrorReason::kNotSaved);
  EXPECT_TRUE(node.session->is_finished());
  Advance(absl::Seconds(1));
  ASSERT_TRUE(EndWrite());
  Node& again = Open("n1");
  Send(again, RegisterFrom("n1", 9));
  while (EndWrite()) {
  }
  again.Drain();
  ASSERT_EQ(again.received.size(), 1u);
  EXPECT_TRUE(again.received[0].has_registered());
}

class RaisedTerm : public SavingTest {
 protected:
  void SetUp() override {
    Node& first = Open("n1");
    Send(first, RegisterMessage("n1", 4 * kMiB));
    while (EndWrite()) {
    }
    first.Drain();
    v1::NodeMessage complete;
    complete.mutable_inventory()->set_complete(true);
    Send(first, complete);
    Node& second = Open("n2");
    Send(second, RegisterFrom("n2", 9));
    handlers.StartPuts(PutRequest({"a"}, 10), now, put.done());
    ASSERT_FALSE(put.is_there());
  }
  Answer<v1::StartPutsResponse> put;
};

TEST_F(RaisedTerm, NothingIsGrantedBeforeItIsDurable) {
  ASSERT_TRUE(EndWrite());
  ASSERT_TRUE(put.is_there());
  ASSERT_TRUE(put.response.results(0).has_grant());
  EXPECT_EQ(Generation{put.response.results(0).grant().generation()}.term(), Term{10});
}

TEST_F(RaisedTerm, NothingIsGrantedWhenItCannotBeMadeDurable) {
  ASSERT_TRUE(EndWrite(kDiskFull));
  EXPECT_THAT(put.status, Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kNotSaved));
}

TEST_F(RaisedTerm, APutEndsAtItsDeadlineWhenTheStoreIsSlow) {
  Advance(absl::Seconds(10));
  EXPECT_THAT(put.status, Fails(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline));
}

TEST_F(RaisedTerm, TheEndOfTheLeadershipIsTheEndOfEverything) {
  ASSERT_TRUE(EndWrite(
      MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm, "not yours")));
  EXPECT_TRUE(handlers.is_deposed());
  EXPECT_THAT(put.status, Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm));
  EXPECT_TRUE(nodes[0]->session->end_status().code() == absl::StatusCode::kFailedPrecondition);
  Answer<v1::ExistsResponse> late;
  handlers.Exists(KeysRequest<v1::ExistsRequest>({"a"}), now, late.done());
  EXPECT_THAT(late.status, Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm));
  EXPECT_FALSE(EndWrite());
}

}  // namespace
}  // namespace moonpool::master
