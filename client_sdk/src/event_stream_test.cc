// EventStream against masters of gRPC that say what they are told to say.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/testing/status_matchers.h"
#include "moonpool/events.h"
#include "moonpool/v1/events.grpc.pb.h"

namespace moonpool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// What a master does with one stream.
struct Script {
  std::vector<v1::EventBatch> batches = {};
  absl::Status end = {};
  bool hangs = false;  // instead of an end
};

// One that serves the scripts that it was given, one per stream, and then hangs.
class FakeMaster final : public v1::EventService::Service {
 public:
  explicit FakeMaster(std::deque<Script> scripts) : scripts_(std::move(scripts)) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  ~FakeMaster() override {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  const std::string& address() const { return address_; }
  void Add(Script script) {
    absl::MutexLock lock(&mutex_);
    scripts_.push_back(std::move(script));
  }
  std::vector<v1::WatchRequest> requests() const {
    absl::MutexLock lock(&mutex_);
    return requests_;
  }

 private:
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::EventBatch>* writer) override {
    Script script{.hangs = true};
    {
      absl::MutexLock lock(&mutex_);
      requests_.push_back(*request);
      if (!scripts_.empty()) {
        script = std::move(scripts_.front());
        scripts_.pop_front();
      }
    }
    for (const v1::EventBatch& batch : script.batches) writer->Write(batch);
    while (script.hangs && !context->IsCancelled()) std::this_thread::yield();
    return ToGrpc(script.end);
  }

  std::string address_;
  std::unique_ptr<grpc::Server> server_;
  mutable absl::Mutex mutex_;
  std::deque<Script> scripts_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::WatchRequest> requests_ ABSL_GUARDED_BY(mutex_);
};

v1::EventBatch Whole(uint64_t sequence, const std::string& stored = "") {
  v1::EventBatch batch;
  batch.set_whole(true);
  batch.mutable_token()->set_log(7);
  batch.mutable_token()->set_sequence(sequence);
  batch.set_heartbeat_interval_ms(1000);
  if (!stored.empty()) {
    v1::Event* const event = batch.add_events();
    event->set_kind(v1::EVENT_STORED);
    event->set_sequence(sequence);
    event->set_namespace_("default");
    event->set_key(stored);
  }
  return batch;
}

absl::Status NotLeader(const std::string& leader = "") {
  return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kNotLeader,
                   "this master does not lead", {.leader = leader});
}

std::unique_ptr<EventStream> Open(EventStreamOptions options) {
  auto opened = EventStream::Open(std::move(options));
  EXPECT_THAT(opened, IsOk());
  return *std::move(opened);
}

// Keys that were stored, until there are so many.
std::vector<std::string> Keys(EventStream& stream, size_t count) {
  std::vector<std::string> keys;
  EXPECT_THAT(stream.Run([&](const EventBatch& batch) {
    for (const Event& event : batch.events) keys.push_back(event.key);
    return keys.size() < count;
  }),
              IsOk());
  return keys;
}

TEST(EventStreamTest, AsksForMastersThatAreSome) {
  EXPECT_EQ(ReasonOf(EventStream::Open({}).status()), ErrorReason::kBadArgument);
  EXPECT_TRUE(absl::IsInvalidArgument(EventStream::Open({.masters = {"nowhere"}}).status()));
}

TEST(EventStreamTest, TellsWhatTheMasterSays) {
  v1::EventBatch batch;
  batch.set_reset(v1::RESET_TOO_OLD);
  batch.add_events()->set_kind(v1::EVENT_CLEARED);
  v1::Event* const removed = batch.add_events();
  removed->set_kind(v1::EVENT_REMOVED);
  removed->set_sequence(5);
  removed->set_namespace_("toy");
  removed->set_key("b");
  removed->set_parent("a");
  removed->set_size_bytes(64);
  removed->set_generation(9);
  removed->set_reason(v1::NODE_LOST);
  removed->add_places()->set_node("n1");
  removed->mutable_places(0)->set_medium("dram");
  batch.add_events()->set_kind(static_cast<v1::EventKind>(99));  // of a later release
  FakeMaster master({{.batches = {batch}, .hangs = true}});
  const auto stream = Open({.masters = {master.address()}, .name_space = "toy"});
  EventBatch told;
  EXPECT_THAT(stream->Run([&](const EventBatch& b) {
    told = b;
    return false;
  }),
              IsOk());
  EXPECT_EQ(told.reset, EventReset::kTooOld);
  EXPECT_FALSE(told.is_whole);
  ASSERT_THAT(told.events, SizeIs(2));
  EXPECT_EQ(told.events[0].kind, EventKind::kCleared);
  const Event& event = told.events[1];
  EXPECT_EQ(event.kind, EventKind::kRemoved);
  EXPECT_EQ(event.sequence, 5);
  EXPECT_EQ(event.name_space, "toy");
  EXPECT_EQ(event.key, "b");
  EXPECT_EQ(event.parent, "a");
  EXPECT_EQ(event.size_bytes, 64);
  EXPECT_EQ(event.generation, 9);
  EXPECT_EQ(event.reason, ErrorReason::kNodeLost);
  EXPECT_THAT(event.places, ElementsAre(EventPlace{.node = "n1", .medium = "dram"}));
  EXPECT_EQ(master.requests()[0].namespace_(), "toy");
  EXPECT_FALSE(master.requests()[0].has_resume());
}

TEST(EventStreamTest, GoesOnWhereItWasWhenItsStreamBreaks) {
  FakeMaster master({{.batches = {Whole(3, "a")}, .end = absl::UnavailableError("cut off")},
                     {.batches = {Whole(4, "b")}, .hangs = true}});
  const auto stream = Open({.masters = {master.address()}});
  EXPECT_THAT(Keys(*stream, 2), ElementsAre("a", "b"));
  ASSERT_THAT(master.requests(), SizeIs(2));
  EXPECT_EQ(master.requests()[1].resume().log(), 7);
  EXPECT_EQ(master.requests()[1].resume().sequence(), 3);
  EXPECT_EQ(stream->token()->sequence, 4);
}

TEST(EventStreamTest, WhatIsNotWholeIsNoPlaceToGoOnFrom) {
  v1::EventBatch half = Whole(5, "b");
  half.set_whole(false);
  half.clear_token();
  FakeMaster master({{.batches = {Whole(3, "a"), half}, .end = absl::UnavailableError("cut off")},
                     {.batches = {Whole(6, "c")}, .hangs = true}});
  const auto stream = Open({.masters = {master.address()}});
  EXPECT_THAT(Keys(*stream, 3), ElementsAre("a", "b", "c"));
  EXPECT_FALSE(master.requests()[1].has_resume());
}

TEST(EventStreamTest, FollowsTheLeader) {
  FakeMaster leader({{.batches = {Whole(3, "a")}, .hangs = true}});
  FakeMaster follower({{.end = NotLeader(leader.address())}});
  const auto stream = Open({.masters = {follower.address()}});
  EXPECT_THAT(Keys(*stream, 1), ElementsAre("a"));
}

TEST(EventStreamTest, AnotherLeaderIsAskedWithTheToken) {
  FakeMaster next({{.batches = {Whole(9, "b")}, .hangs = true}});
  FakeMaster first({{.batches = {Whole(3, "a")}, .end = NotLeader(next.address())}});
  const auto stream = Open({.masters = {first.address(), next.address()}});
  EXPECT_THAT(Keys(*stream, 2), ElementsAre("a", "b"));
  EXPECT_EQ(next.requests()[0].resume().sequence(), 3);
}

TEST(EventStreamTest, AMasterThatFallsSilentIsPassedOver) {
  FakeMaster silent(std::deque<Script>{{.hangs = true}});
  FakeMaster other({{.batches = {Whole(3, "a")}, .hangs = true}});
  const auto stream = Open({.masters = {silent.address(), other.address()}});
  EXPECT_THAT(Keys(*stream, 1), ElementsAre("a"));
}

TEST(EventStreamTest, WhatTheMasterCannotDoIsAnError) {
  FakeMaster master({{.end = absl::UnimplementedError("no such service")}});
  const auto stream = Open({.masters = {master.address()}});
  EXPECT_TRUE(absl::IsUnimplemented(stream->Run([](const EventBatch&) { return true; })));
}

TEST(EventStreamTest, NoMasterIsAnErrorAfterTheTimeThatIsGiven) {
  std::string address;
  {
    FakeMaster gone(std::deque<Script>{});
    address = gone.address();
  }
  const auto stream = Open({.masters = {address}, .give_up_after = absl::Milliseconds(100)});
  const absl::Status end = stream->Run([](const EventBatch&) { return true; });
  EXPECT_TRUE(absl::IsUnavailable(end));
  EXPECT_THAT(std::string(end.message()), HasSubstr(address));
}

TEST(EventStreamTest, CancellationEndsAWaitForEvents) {
  FakeMaster master({{.batches = {Whole(3, "a")}, .hangs = true}});
  const auto stream = Open({.masters = {master.address()}});
  CancelSource source;
  absl::Notification has_begun;
  std::thread canceller([&] {
    has_begun.WaitForNotification();
    source.Cancel();
  });
  const absl::Status end = stream->Run(
      [&](const EventBatch&) {
        if (!has_begun.HasBeenNotified()) has_begun.Notify();
        return true;
      },
      source.token());
  canceller.join();
  EXPECT_TRUE(absl::IsCancelled(end)) << end;
}

TEST(EventStreamTest, CancellationEndsAWaitForAMaster) {
  const auto stream = Open({.masters = {"127.0.0.1:1"}});
  CancelSource source;
  source.Cancel();
  EXPECT_TRUE(
      absl::IsCancelled(stream->Run([](const EventBatch&) { return true; }, source.token())));
}

}  // namespace
}  // namespace moonpool
