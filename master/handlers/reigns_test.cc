// Reigns that come and go, on time that moves when told.
#include "master/handlers/reigns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "master/handlers/handlers_fixture.h"
#include "master/meta/testing/memory_meta_store.h"

namespace moonpool::master {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kLease = absl::Seconds(2);
constexpr uint64_t kMiB = uint64_t{1} << 20;

auto IsNotLeader() { return Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kNotLeader); }

std::string LeaderIn(const absl::Status& status) {
  const auto detail = DetailOf(status);
  return detail.has_value() ? detail->leader : "no detail";
}

// A node's stream, as the edge holds it.
struct Stream {
  std::unique_ptr<NodeSession> session;
  std::vector<v1::MasterMessage> received;
  int pokes = 0;

  void Drain() {
    while (auto message = session->TakeMessage()) received.push_back(*std::move(message));
  }
};

class ReignsTest : public ::testing::Test {
 protected:
  explicit ReignsTest(Mastership mastership = Mastership::kElected)
      : reigns(mastership, leadership, options) {}
  ~ReignsTest() override {
    for (auto& stream : streams) Close(*stream);
    reigns.TakeEnded();
  }

  void Elect(Reign reign, Term term) {
    leadership.Begin(reign, now + kLease);
    reigns.OnElection({.kind = ElectionEvent::Kind::kLeader, .term = term, .reign = reign}, now);
  }
  bool Begin(Reign reign, Term term) {
    auto store = std::make_unique<MemoryMetaStore>(disk);
    last_store = store.get();
    return reigns.Begin(reign, std::move(store),
                        std::make_unique<Core>(CoreOptions{}, term, Random(1), DurableState{}),
                        now);
  }
  void Lead(Reign reign, Term term) {
    Elect(reign, term);
    ASSERT_TRUE(Begin(reign, term));
  }
  void Lose() {
    leadership.End();
    reigns.OnElection({.kind = ElectionEvent::Kind::kLost}, now);
  }
  void Follow(std::string leader) {
    reigns.OnElection({.kind = ElectionEvent::Kind::kFollower, .leader = std::move(leader)}, now);
  }
  void Advance(absl::Duration duration) {
    now += duration;
    reigns.Tick(now);
  }
  // In steps, as the timer does.
  void AdvanceSlowly(absl::Duration duration) {
    for (const absl::Time end = now + duration; now < end;) Advance(absl::Milliseconds(100));
  }

  Stream& Join(absl::string_view name) {
    streams.push_back(std::make_unique<Stream>());
    Stream& stream = *streams.back();
    Handlers& handlers = *reigns.Admit(now)->handlers;
    stream.session = *handlers.OpenSession([&stream] { ++stream.pokes; }, now);
    v1::NodeMessage message;
    v1::Register* out = message.mutable_register_();
    FillVersion(out->mutable_version());
    out->set_name(std::string(name));
    out->set_incarnation(1);
    out->set_tcp_address("127.0.0.1:1");
    v1::Segment* segment = out->add_segments();
    segment->set_medium("dram");
    segment->set_capacity_bytes(kMiB);
    handlers.OnNodeMessage(*stream.session, message, now);
    WriteAll();
    message.Clear();
    message.mutable_inventory()->set_complete(true);
    handlers.OnNodeMessage(*stream.session, message, now);
    stream.Drain();
    stream.received.clear();
    return stream;
  }
  void Close(Stream& stream) {
    if (stream.session == nullptr) return;
    stream.session.reset();
  }
  void WriteAll() {
    for (auto due = reigns.TakeWrite(now); due.has_value();) {
      absl::Status written;
      due->store->Write(due->batch, [&](const absl::Status& status) { written = status; });
      reigns.OnWritten(due->reign, written, now);
      due = reigns.EndWrite(due->reign, true, now);
    }
  }
  void RemoveObject() {
    v1::RemoveRequest remove;
    FillVersion(remove.mutable_header()->mutable_version());
    remove.mutable_header()->set_timeout_ms(60'000);
    remove.add_keys("k");
    reigns.Admit(now)->handlers->Remove(remove, now, removed.done());
  }
  void PutObject() {
    Handlers& handlers = *reigns.Admit(now)->handlers;
    v1::StartPutsRequest start;
    FillVersion(start.mutable_header()->mutable_version());
    start.mutable_header()->set_client_id(1);
    start.set_request_id(1);
    start.add_puts()->set_key("k");
    start.mutable_puts(0)->set_size_bytes(4096);
    Answer<v1::StartPutsResponse> started;
    handlers.StartPuts(start, now, started.done());
    ASSERT_TRUE(started.is_there());
    ASSERT_TRUE(started.response.results(0).has_grant());
    v1::CommitPutsRequest commit;
    *commit.mutable_header() = start.header();
    v1::CommitPut* put = commit.add_puts();
    put->set_generation(started.response.results(0).grant().generation());
    put->set_handle(started.response.results(0).grant().handle());
    Answer<v1::CommitPutsResponse> committed;
    handlers.CommitPuts(commit, now, committed.done());
    ASSERT_THAT(committed.status, IsOk());
  }
  // A put that has to wait, since nobody lends memory.
  void PutAndWait(Answer<v1::StartPutsResponse>& answer) {
    v1::StartPutsRequest request;
    FillVersion(request.mutable_header()->mutable_version());
    request.mutable_header()->set_client_id(1);
    request.mutable_header()->set_timeout_ms(60'000);
    request.set_request_id(1);
    request.set_wait_for_space(true);
    request.add_puts()->set_key("k");
    request.mutable_puts(0)->set_size_bytes(4096);
    reigns.Admit(now)->handlers->StartPuts(request, now, answer.done());
    ASSERT_EQ(answer.count, 0);
  }

  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  const HandlersOptions options;
  MemoryDisk disk;
  MemoryMetaStore* last_store = nullptr;
  Leadership leadership;
  Reigns reigns;
  std::vector<std::unique_ptr<Stream>> streams;
  Answer<v1::RemoveResponse> removed;
};

TEST_F(ReignsTest, WhoDoesNotLeadNamesWhoDoes) {
  EXPECT_THAT(reigns.Admit(now), IsNotLeader());
  EXPECT_EQ(LeaderIn(reigns.Admit(now).status()), "");
  Follow("b:2");
  EXPECT_THAT(reigns.Admit(now), IsNotLeader());
  EXPECT_EQ(LeaderIn(reigns.Admit(now).status()), "b:2");
  Elect(Reign{5}, Term{2});
  EXPECT_EQ(LeaderIn(reigns.Admit(now).status()), "") << "itself, and it has not begun";
  ASSERT_TRUE(Begin(Reign{5}, Term{2}));
  ASSERT_THAT(reigns.Admit(now), IsOk());
  EXPECT_EQ(reigns.Admit(now)->reign, Reign{5});
  Lose();
  Follow("c:3");
  EXPECT_EQ(LeaderIn(reigns.Admit(now).status()), "c:3");
}

TEST_F(ReignsTest, WhatWasLoadedForAReignThatIsOverIsNotTaken) {
  Elect(Reign{5}, Term{2});
  ASSERT_TRUE(reigns.to_begin().has_value());
  EXPECT_EQ(reigns.to_begin()->term, Term{2});
  Lose();
  EXPECT_FALSE(reigns.to_begin().has_value());
  EXPECT_FALSE(Begin(Reign{5}, Term{2}));
  Elect(Reign{9}, Term{4});
  std::unique_ptr<MetaStore> store = std::make_unique<MemoryMetaStore>(disk);
  auto core = std::make_unique<Core>(CoreOptions{}, Term{2}, Random(1), DurableState{});
  EXPECT_FALSE(reigns.Begin(Reign{5}, std::move(store), std::move(core), now))
      << "that of the one before";
  EXPECT_NE(store, nullptr) << "its owner destroys it, and not whoever holds the lock";
  EXPECT_NE(core, nullptr);
  EXPECT_THAT(reigns.Admit(now), IsNotLeader());
  EXPECT_TRUE(Begin(Reign{9}, Term{4}));
  EXPECT_THAT(reigns.Admit(now), IsOk());
}

TEST_F(ReignsTest, ARaisedTermIsNoOtherReign) {
  Elect(Reign{5}, Term{2});
  Elect(Reign{5}, Term{7});
  ASSERT_TRUE(Begin(Reign{5}, Term{7}));
  const Handlers* const handlers = reigns.Admit(now)->handlers;
  Elect(Reign{5}, Term{9});
  EXPECT_FALSE(reigns.to_begin().has_value());
  EXPECT_EQ(reigns.Admit(now)->handlers, handlers);
}

// The events of a loss and of the next reign may come in one go.
TEST_F(ReignsTest, ALaterReignHasACoreOfItsOwn) {
  Lead(Reign{5}, Term{2});
  Lose();
  Lead(Reign{9}, Term{4});
  EXPECT_EQ(reigns.present()->core->term(), Term{4});
  EXPECT_THAT(reigns.TakeEnded(), SizeIs(1));
}

TEST_F(ReignsTest, TheEndOfAReignEndsItsCallsAndSessions) {
  Lead(Reign{5}, Term{2});
  Answer<v1::StartPutsResponse> put;
  PutAndWait(put);
  Lose();
  ASSERT_TRUE(put.is_there());
  EXPECT_THAT(put.status, IsNotLeader());

  Lead(Reign{9}, Term{4});
  Stream& node = Join("n1");
  Lose();
  node.Drain();
  ASSERT_THAT(node.received, SizeIs(1));
  EXPECT_THAT(StatusFromProto(node.received[0].refused().status()), IsNotLeader());
  EXPECT_TRUE(node.session->is_finished());
  EXPECT_THAT(node.session->end_status(), IsNotLeader());
}

TEST_F(ReignsTest, ASessionKeepsItsReignFromBeingDestroyed) {
  Lead(Reign{5}, Term{2});
  Stream& node = Join("n1");
  Handlers* const handlers = reigns.Find(Reign{5});
  Lose();
  EXPECT_FALSE(reigns.has_ended());
  EXPECT_THAT(reigns.TakeEnded(), IsEmpty());
  EXPECT_EQ(reigns.Find(Reign{5}), handlers);
  // It has a moment to take the last message; then its stream is cut.
  EXPECT_FALSE(node.session->is_cut_off());
  Advance(options.drain_timeout);
  EXPECT_TRUE(node.session->is_cut_off());
  Close(node);
  EXPECT_TRUE(reigns.has_ended());
  EXPECT_THAT(reigns.TakeEnded(), SizeIs(1));
  EXPECT_EQ(reigns.Find(Reign{5}), nullptr);
}

// As many objects as it has are as much to do at each tick.
TEST_F(ReignsTest, TheCoreOfAReignThatIsOverStandsStill) {
  Lead(Reign{5}, Term{2});
  Join("n1");
  PutObject();
  // What it has not saved will never be.
  v1::OpenNamespaceRequest request;
  FillVersion(request.mutable_header()->mutable_version());
  request.mutable_header()->set_namespace_("models");
  request.set_fingerprint("f1");
  Answer<v1::OpenNamespaceResponse> open;
  reigns.Find(Reign{5})->OpenNamespace(request, now, open.done());
  const Core& core = *reigns.present()->core;
  Lose();
  AdvanceSlowly(absl::Hours(1));
  EXPECT_EQ(core.GetStatus(now).objects, 1u) << "its node would be lost by now";
  EXPECT_EQ(reigns.NextWakeup(), now + options.tick_interval);
}

TEST_F(ReignsTest, AWriteKeepsItsReignFromBeingDestroyed) {
  Lead(Reign{5}, Term{2});
  v1::OpenNamespaceRequest request;
  FillVersion(request.mutable_header()->mutable_version());
  request.mutable_header()->set_namespace_("models");
  request.set_fingerprint("f1");
  Answer<v1::OpenNamespaceResponse> open;
  reigns.Find(Reign{5})->OpenNamespace(request, now, open.done());
  const auto due = reigns.TakeWrite(now);
  ASSERT_TRUE(due.has_value());
  EXPECT_EQ(due->store, last_store);
  EXPECT_FALSE(reigns.TakeWrite(now).has_value()) << "one at a time";
  Lose();
  EXPECT_THAT(open.status, IsNotLeader());
  EXPECT_THAT(reigns.TakeEnded(), IsEmpty());
  EXPECT_TRUE(reigns.is_writing());
  reigns.OnWritten(Reign{5}, absl::OkStatus(), now);
  EXPECT_FALSE(reigns.EndWrite(Reign{5}, true, now).has_value());
  EXPECT_FALSE(reigns.is_writing());
  EXPECT_THAT(reigns.TakeEnded(), SizeIs(1));
}

// R10. Nobody has to tell it.
TEST_F(ReignsTest, WithoutALeaseNobodyIsAdmittedAndWithItTheSameReignGoesOn) {
  Lead(Reign{5}, Term{2});
  const Handlers* const handlers = reigns.Admit(now)->handlers;
  Answer<v1::StartPutsResponse> put;
  PutAndWait(put);
  now += kLease;
  EXPECT_THAT(reigns.Admit(now), IsNotLeader());
  EXPECT_EQ(put.count, 0);
  reigns.Tick(now);
  EXPECT_TRUE(put.is_there());
  EXPECT_THAT(put.status, IsNotLeader());
  leadership.Extend(now + kLease);
  ASSERT_THAT(reigns.Admit(now), IsOk());
  EXPECT_EQ(reigns.Admit(now)->handlers, handlers);
}

TEST_F(ReignsTest, WhatWasTakenInAReignIsAnsweredInItAndNotAfterIt) {
  Lead(Reign{5}, Term{2});
  EXPECT_TRUE(MayAnswer(leadership, Reign{5}, now));
  EXPECT_FALSE(MayAnswer(leadership, Reign{5}, now + kLease)) << "its lease has ended";
  Lose();
  Lead(Reign{9}, Term{4});
  EXPECT_FALSE(MayAnswer(leadership, Reign{5}, now)) << "another reign goes on";
  EXPECT_TRUE(MayAnswer(leadership, Reign{9}, now));
}

TEST_F(ReignsTest, InAShortSilenceNodesAreToldOfItAndNoMore) {
  Lead(Reign{5}, Term{2});
  Stream& node = Join("n1");
  PutObject();
  RemoveObject();  // a command stands in the queue
  now += kLease;
  AdvanceSlowly(options.session_timeout / 4);
  node.Drain();
  ASSERT_THAT(node.received, SizeIs(1));
  EXPECT_TRUE(node.received[0].has_silence());
  node.received.clear();
  v1::NodeMessage heartbeat;
  heartbeat.mutable_heartbeat()->set_sequence(7);
  reigns.Find(Reign{5})->OnNodeMessage(*node.session, heartbeat, now);
  AdvanceSlowly(options.session_timeout / 4);
  node.Drain();
  EXPECT_THAT(node.received, IsEmpty()) << "not even an acknowledgement";
  leadership.Extend(now + kLease);
  const int pokes = node.pokes;
  Advance(absl::Milliseconds(20));
  EXPECT_GT(node.pokes, pokes);
  node.Drain();
  ASSERT_THAT(node.received, SizeIs(2));
  EXPECT_EQ(node.received[0].heartbeat_ack().sequence(), 7u);
  EXPECT_TRUE(node.received[1].has_command());
  EXPECT_FALSE(node.session->is_finished());
}

// A process that was stopped takes what has come meanwhile before its timer says anything.
TEST_F(ReignsTest, WhoLooksFirstAcknowledgesNothingOfBefore) {
  Lead(Reign{5}, Term{2});
  Stream& node = Join("n1");
  now += 10 * kLease;
  v1::NodeMessage heartbeat;
  heartbeat.mutable_heartbeat()->set_sequence(7);
  reigns.Observe(now);
  reigns.Find(Reign{5})->OnNodeMessage(*node.session, heartbeat, now);
  node.Drain();
  ASSERT_THAT(node.received, SizeIs(1));
  EXPECT_TRUE(node.received[0].has_silence());
}

// Another may lead by now, and it needs them.
TEST_F(ReignsTest, ALongSilenceLetsNodesGoAndCountsNoneAsLost) {
  Lead(Reign{5}, Term{2});
  Stream& node = Join("n1");
  PutObject();
  const auto objects = [&] { return reigns.present()->core->GetStatus(now).objects; };
  ASSERT_EQ(objects(), 1u);
  // It hears of the node to the end, so that it is not the node's silence that ends the session.
  v1::NodeMessage heartbeat;
  heartbeat.mutable_heartbeat()->set_sequence(1);
  for (int i = 0; i < 100; ++i) {
    Advance(absl::Milliseconds(100));
    reigns.Find(Reign{5})->OnNodeMessage(*node.session, heartbeat, now);
    node.Drain();
  }
  ASSERT_FALSE(node.received.empty());
  EXPECT_THAT(StatusFromProto(node.received.back().refused().status()), IsNotLeader());
  Close(node);
  AdvanceSlowly(absl::Minutes(1));
  EXPECT_EQ(objects(), 1u);
  EXPECT_EQ(reigns.present()->core->ListNodes(now)[0].is_up, false);
  leadership.Extend(now + absl::Hours(1));
  AdvanceSlowly(CoreOptions{}.node_loss_timeout - absl::Seconds(1));
  EXPECT_EQ(objects(), 1u) << "its time to come back begins with the end of the silence";
  Join("n1");
  EXPECT_EQ(reigns.present()->core->GetStatus(now).nodes_up, 1u);
}

TEST_F(ReignsTest, AStoreThatWasTakenOverEndsTheReignBeforeTheElectionSaysSo) {
  Lead(Reign{5}, Term{2});
  v1::OpenNamespaceRequest request;
  FillVersion(request.mutable_header()->mutable_version());
  request.mutable_header()->set_namespace_("models");
  request.set_fingerprint("f1");
  Answer<v1::OpenNamespaceResponse> open;
  reigns.Find(Reign{5})->OpenNamespace(request, now, open.done());
  ASSERT_TRUE(reigns.TakeWrite(now).has_value());
  reigns.OnWritten(Reign{5},
                   MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm, "x"),
                   now);
  EXPECT_FALSE(reigns.EndWrite(Reign{5}, true, now).has_value());
  EXPECT_THAT(open.status, IsNotLeader());
  EXPECT_THAT(reigns.Admit(now), IsNotLeader());
  EXPECT_FALSE(reigns.to_begin().has_value()) << "it does not begin anew";
  EXPECT_FALSE(reigns.is_deposed()) << "there is nothing for an operator to do";
  EXPECT_THAT(reigns.TakeEnded(), SizeIs(1));
  Lose();
  Lead(Reign{9}, Term{4});
  EXPECT_THAT(reigns.Admit(now), IsOk());
}

TEST_F(ReignsTest, AfterShutdownNothingBegins) {
  Elect(Reign{5}, Term{2});
  reigns.Shutdown(now);
  reigns.Shutdown(now);
  EXPECT_THAT(reigns.Admit(now), Fails(absl::StatusCode::kUnavailable, ErrorReason::kShuttingDown));
  EXPECT_FALSE(Begin(Reign{5}, Term{2}));
}

class AloneTest : public ReignsTest {
 protected:
  AloneTest() : ReignsTest(Mastership::kAlone) {
    leadership.Begin(kReignAlone, absl::InfiniteFuture());
    reigns.OnElection({.kind = ElectionEvent::Kind::kLeader, .reign = kReignAlone}, now);
    EXPECT_TRUE(Begin(kReignAlone, Term{7}));
  }
};

TEST_F(AloneTest, ItsLeaseNeverEnds) {
  Advance(absl::Hours(24 * 365));
  EXPECT_THAT(reigns.Admit(now), IsOk());
}

TEST_F(AloneTest, AStoreThatWasTakenOverLeavesItForTheOperator) {
  v1::OpenNamespaceRequest request;
  FillVersion(request.mutable_header()->mutable_version());
  request.mutable_header()->set_namespace_("models");
  request.set_fingerprint("f1");
  Answer<v1::OpenNamespaceResponse> open;
  reigns.Find(kReignAlone)->OpenNamespace(request, now, open.done());
  ASSERT_TRUE(reigns.TakeWrite(now).has_value());
  EXPECT_FALSE(reigns.is_deposed());
  reigns.OnWritten(kReignAlone,
                   MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm, "x"),
                   now);
  EXPECT_THAT(open.status, Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm));
  EXPECT_TRUE(reigns.is_deposed());
}

}  // namespace
}  // namespace moonpool::master
