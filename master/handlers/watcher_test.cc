// Streams of events: what is sent when, and how they end.
#include "master/handlers/watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <string>
#include <vector>

#include "master/handlers/handlers_fixture.h"

namespace moonpool::master {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// One client at the other end of a stream, which reads when told.
struct Stream {
  std::unique_ptr<Watcher> watcher;
  int pokes = 0;
  bool reads_when_poked = false;  // as the edge does
  int messages = 0;
  std::set<std::string> stored;
  std::vector<v1::EventReset> resets;
  v1::EventBatch last;

  // Takes and applies one batch; false: there is none.
  bool Read(absl::Time now) {
    if (!watcher->TakeMessage(now, &last)) return false;
    ++messages;
    if (last.reset() != 0) resets.push_back(last.reset());
    for (const v1::Event& event : last.events()) {
      if (event.kind() == v1::EVENT_CLEARED) stored.clear();
      if (event.kind() == v1::EVENT_STORED) stored.insert(event.key());
      if (event.kind() == v1::EVENT_REMOVED) stored.erase(event.key());
    }
    watcher->Sent(now);
    return true;
  }
  int ReadAll(absl::Time now) {
    int batches = 0;
    while (Read(now)) ++batches;
    return batches;
  }
};

CoreOptions FewEvents() {
  CoreOptions options;
  options.max_events = 4;
  options.snapshot_slots_per_call = 2;
  return options;
}

HandlersOptions FewWatchers() {
  HandlersOptions options;
  options.max_watchers = 2;
  return options;
}

class WatcherTest : public HandlersFixture {
 protected:
  WatcherTest() : HandlersFixture(FewWatchers(), FewEvents()) { AddNode("n1", 64 * kMiB); }
  ~WatcherTest() override { handlers.Shutdown(now); }  // while the answers are there

  absl::Status Watch(Stream& stream, v1::WatchRequest request = {}) {
    FillVersion(request.mutable_version());
    auto watcher = handlers.Watch(
        request,
        [this, &stream] {
          ++stream.pokes;
          if (stream.reads_when_poked) stream.Read(now);
        },
        now);
    if (watcher.ok()) stream.watcher = *std::move(watcher);
    return watcher.status();
  }
  void Remove(const std::string& key) {
    handlers.Remove(KeysRequest<v1::RemoveRequest>({key}), now, answers_.emplace_back().done());
  }

  std::deque<Answer<v1::RemoveResponse>> answers_;  // they wait for the node
};

TEST_F(WatcherTest, BeginsWithWhatIsStoredInSlices) {
  for (const char* key : {"a", "b", "c", "d", "e"}) Put(key, 100);
  Stream stream;
  ASSERT_THAT(Watch(stream), IsOk());
  ASSERT_TRUE(stream.Read(now));
  EXPECT_FALSE(stream.last.whole());
  EXPECT_FALSE(stream.last.has_token());
  EXPECT_EQ(stream.last.events(0).kind(), v1::EVENT_CLEARED);
  EXPECT_EQ(stream.ReadAll(now), 2);
  EXPECT_TRUE(stream.last.whole());
  EXPECT_EQ(stream.last.token().sequence(), 5);
  EXPECT_THAT(stream.stored, ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_THAT(stream.resets, ElementsAre(v1::RESET_START));
}

TEST_F(WatcherTest, WhatAnEventSays) {
  Stream stream;
  ASSERT_THAT(Watch(stream), IsOk());
  stream.ReadAll(now);
  const v1::Grant grant = Grant("a", 100);
  Commit(grant);
  Advance(absl::Milliseconds(20));
  ASSERT_TRUE(stream.Read(now));
  ASSERT_EQ(stream.last.events_size(), 1);
  const v1::Event& event = stream.last.events(0);
  EXPECT_EQ(event.namespace_(), "default");
  EXPECT_EQ(event.key(), "a");
  EXPECT_EQ(event.size_bytes(), 100);
  EXPECT_EQ(event.generation(), grant.generation());
  EXPECT_EQ(event.sequence(), 1);
  EXPECT_EQ(event.places(0).node(), "n1");
  EXPECT_EQ(event.places(0).medium(), "dram");
  Remove("a");
  Advance(absl::Milliseconds(20));
  ASSERT_TRUE(stream.Read(now));
  EXPECT_EQ(stream.last.events(0).kind(), v1::EVENT_REMOVED);
  EXPECT_EQ(stream.last.events(0).reason(), v1::REMOVED);
}

TEST_F(WatcherTest, EventsOfManyCallsGoTogetherWithTheNextTick) {
  Stream stream;
  ASSERT_THAT(Watch(stream), IsOk());
  stream.ReadAll(now);
  Put("a", 100);
  Put("b", 100);
  EXPECT_FALSE(stream.Read(now));
  EXPECT_EQ(stream.pokes, 0);
  Advance(absl::Milliseconds(20));
  EXPECT_EQ(stream.pokes, 1);
  EXPECT_EQ(stream.ReadAll(now), 1);
  EXPECT_THAT(stream.stored, ElementsAre("a", "b"));
}

TEST_F(WatcherTest, WhereNothingHappensItSaysSo) {
  Stream stream;
  ASSERT_THAT(Watch(stream), IsOk());
  stream.ReadAll(now);
  EXPECT_EQ(stream.last.heartbeat_interval_ms(), 1000);
  Advance(absl::Milliseconds(900));
  EXPECT_FALSE(stream.Read(now));
  Advance(absl::Milliseconds(100));
  EXPECT_EQ(stream.ReadAll(now), 1);
  EXPECT_THAT(stream.last.events(), IsEmpty());
  EXPECT_TRUE(stream.last.whole());
}

TEST_F(WatcherTest, InABusyPoolAQuietNamespaceHearsNoMoreThanSignsOfLife) {
  ASSERT_THAT(core.OpenNamespace("quiet", "layout", now), IsOk());
  Stream stream;
  stream.reads_when_poked = true;
  v1::WatchRequest request;
  request.set_namespace_("quiet");
  ASSERT_THAT(Watch(stream, request), IsOk());
  stream.ReadAll(now);
  EXPECT_TRUE(stream.last.whole());
  EXPECT_EQ(stream.messages, 1);
  for (int tick = 0; tick < 100; ++tick) {
    Put(absl::StrCat("k", tick), 100);
    Advance(absl::Milliseconds(20));
  }
  EXPECT_EQ(stream.messages, 3);  // of two seconds
  // None of it was lost on him, though the log keeps only four events.
  EXPECT_THAT(stream.resets, ElementsAre(v1::RESET_START));
  EXPECT_EQ(stream.last.token().sequence(), core.events().last().sequence);
}

TEST_F(WatcherTest, AWalkPastOthersObjectsGoesOnWithoutEmptyMessages) {
  ASSERT_THAT(core.OpenNamespace("quiet", "layout", now), IsOk());
  for (int i = 0; i < 50; ++i) Put(absl::StrCat("k", i), 100);
  Stream stream;
  v1::WatchRequest request;
  request.set_namespace_("quiet");
  ASSERT_THAT(Watch(stream, request), IsOk());
  EXPECT_EQ(stream.ReadAll(now), 2);  // that it begins; that this is all
  EXPECT_TRUE(stream.last.whole());
}

TEST_F(WatcherTest, GoesOnFromItsToken) {
  Stream first;
  ASSERT_THAT(Watch(first), IsOk());
  first.ReadAll(now);
  Put("a", 100);
  v1::WatchRequest request;
  *request.mutable_resume() = first.last.token();
  Stream second;
  ASSERT_THAT(Watch(second, request), IsOk());
  EXPECT_EQ(second.ReadAll(now), 1);
  EXPECT_THAT(second.resets, IsEmpty());
  EXPECT_THAT(second.stored, ElementsAre("a"));
}

TEST_F(WatcherTest, WhoIsTooSlowBeginsAnewAndCostsNoMemory) {
  Stream stream;
  ASSERT_THAT(Watch(stream), IsOk());
  stream.ReadAll(now);
  for (int i = 0; i < 9; ++i) Put(absl::StrCat("k", i), 100);
  for (int i = 0; i < 6; ++i) Remove(absl::StrCat("k", i));
  EXPECT_EQ(core.events().size(), 4);
  Advance(absl::Milliseconds(20));
  stream.ReadAll(now);
  EXPECT_THAT(stream.resets, ElementsAre(v1::RESET_START, v1::RESET_TOO_SLOW));
  EXPECT_THAT(stream.stored, ElementsAre("k6", "k7", "k8"));
  EXPECT_TRUE(stream.last.whole());
}

TEST_F(WatcherTest, AMessageThatDoesNotGoOutEndsItsStream) {
  Stream stream;
  ASSERT_THAT(Watch(stream), IsOk());
  ASSERT_TRUE(stream.watcher->TakeMessage(now, &stream.last));
  Advance(absl::Seconds(59));
  EXPECT_FALSE(stream.watcher->is_ended());
  Advance(absl::Seconds(1));
  EXPECT_TRUE(stream.watcher->is_ended());
  EXPECT_EQ(ReasonOf(stream.watcher->end_status()), ErrorReason::kLimitReached);
  EXPECT_EQ(handlers.watcher_count(), 0);
}

TEST_F(WatcherTest, ThereAreOnlySoMany) {
  Stream streams[3];
  EXPECT_THAT(Watch(streams[0]), IsOk());
  EXPECT_THAT(Watch(streams[1]), IsOk());
  EXPECT_EQ(ReasonOf(Watch(streams[2])), ErrorReason::kLimitReached);
  streams[0].watcher.reset();
  EXPECT_THAT(Watch(streams[2]), IsOk());
}

TEST_F(WatcherTest, NothingIsKeptWhenNobodyHasListenedForAWhile) {
  EXPECT_FALSE(core.events().is_on());
  Stream stream;
  ASSERT_THAT(Watch(stream), IsOk());
  EXPECT_TRUE(core.events().is_on());
  stream.watcher.reset();
  Advance(absl::Seconds(59));
  EXPECT_TRUE(core.events().is_on());
  Advance(absl::Seconds(2));
  EXPECT_FALSE(core.events().is_on());
}

TEST_F(WatcherTest, EndsWithItsMaster) {
  Stream stream;
  ASSERT_THAT(Watch(stream), IsOk());
  handlers.Shutdown(now);
  EXPECT_TRUE(stream.watcher->is_ended());
  EXPECT_EQ(stream.pokes, 1);
  EXPECT_EQ(ReasonOf(stream.watcher->end_status()), ErrorReason::kShuttingDown);
  EXPECT_FALSE(stream.Read(now));
  Stream late;
  EXPECT_EQ(ReasonOf(Watch(late)), ErrorReason::kShuttingDown);
}

TEST_F(WatcherTest, EndsWithoutAWordMoreWhenItsMasterMayNotAnswer) {
  Stream stream;
  ASSERT_THAT(Watch(stream), IsOk());
  handlers.FallSilent(MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kNotLeader,
                                "this master does not lead"),
                      now);
  EXPECT_TRUE(stream.watcher->is_ended());
  EXPECT_EQ(ReasonOf(stream.watcher->end_status()), ErrorReason::kNotLeader);
}

TEST_F(WatcherTest, WhatComesFromTheWireIsChecked) {
  Stream stream;
  v1::WatchRequest request;
  request.set_namespace_(std::string(256, 'n'));
  EXPECT_EQ(ReasonOf(Watch(stream, request)), ErrorReason::kBadArgument);
  v1::WatchRequest other;
  other.mutable_version()->set_major(99);
  EXPECT_EQ(ReasonOf(handlers
                         .Watch(
                             other, [] {}, now)
                         .status()),
            ErrorReason::kPeerVersion);
}

// So many streams with so much to say that only a few get a turn between two ticks.
class ManyWatchersTest : public HandlersFixture {
 protected:
  static constexpr size_t kStreams = 12;
  static constexpr size_t kPerTick = 20;
  static constexpr size_t kPerMessage = 8;
  static constexpr size_t kObjects = 100;

  ManyWatchersTest()
      : HandlersFixture({.events_per_message = kPerMessage, .events_per_tick = kPerTick}) {
    AddNode("n1", 64 * kMiB);
    for (size_t i = 0; i < kObjects; ++i) Put(absl::StrCat("k", i), 100);
    Advance(absl::Milliseconds(20));
    for (Stream& stream : streams) {
      v1::WatchRequest request;
      FillVersion(request.mutable_version());
      auto watcher = handlers.Watch(
          request, [this, &stream] { stream.Read(now); }, now);
      EXPECT_THAT(watcher, IsOk());
      stream.watcher = *std::move(watcher);
    }
  }
  ~ManyWatchersTest() override { handlers.Shutdown(now); }

  // Between two ticks all of them want more all the time, the first ones most.
  void ReadGreedily() {
    for (Stream& stream : streams) stream.ReadAll(now);
  }
  size_t told() const {
    size_t events = 0;
    for (const Stream& stream : streams) events += stream.stored.size();
    return events;
  }

  Stream streams[kStreams];
};

TEST_F(ManyWatchersTest, TellNoMoreThanTheirShareBetweenTwoTicks) {
  for (int tick = 0; tick < 200; ++tick) {
    const size_t before = told();
    Advance(absl::Milliseconds(20));
    ReadGreedily();
    // And one message more, of the walk and of the log.
    ASSERT_LE(told() - before, kPerTick + 2 * kPerMessage);
  }
  for (const Stream& stream : streams) EXPECT_EQ(stream.stored.size(), kObjects);
}

TEST_F(ManyWatchersTest, AreServedInTurns) {
  // In each round somebody gets at least two messages' worth; nobody waits longer than all others.
  constexpr int kRound = kStreams;
  for (int round = 0; round < 5; ++round) {
    int before[kStreams];
    for (size_t i = 0; i < kStreams; ++i) before[i] = streams[i].messages;
    for (int tick = 0; tick < kRound; ++tick) {
      Advance(absl::Milliseconds(20));
      ReadGreedily();
    }
    for (size_t i = 0; i < kStreams; ++i) {
      EXPECT_GT(streams[i].messages, before[i]) << "stream " << i << ", round " << round;
    }
  }
}

TEST_F(ManyWatchersTest, ATickThatComesEarlyGivesNoMore) {
  Advance(absl::Milliseconds(20));
  const size_t before = told();
  Advance(absl::Milliseconds(1));
  Advance(absl::Milliseconds(1));
  EXPECT_EQ(told(), before);
}

TEST_F(ManyWatchersTest, WhoHasNothingToTellSaysSoAllTheSame) {
  for (int tick = 0; tick < 200; ++tick) {
    Advance(absl::Milliseconds(20));
    ReadGreedily();
  }
  EXPECT_GE(streams[0].messages, 2 + 4000 / 1000 - 1);
}

class NoEventsTest : public HandlersFixture {
 protected:
  NoEventsTest() : HandlersFixture({}, {.max_events = 0}) {}
};

TEST_F(NoEventsTest, AMasterMayKeepNone) {
  v1::WatchRequest request;
  FillVersion(request.mutable_version());
  EXPECT_EQ(ReasonOf(handlers
                         .Watch(
                             request, [] {}, now)
                         .status()),
            ErrorReason::kBadArgument);
}

}  // namespace
}  // namespace moonpool::master
