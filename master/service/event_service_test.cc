// Streams of events over real gRPC on loopback.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/testing/status_matchers.h"
#include "common/testing/test_logger.h"
#include "common/version.h"
#include "master/service/server.h"
#include "moonpool/v1/events.grpc.pb.h"
#include "moonpool/v1/master.grpc.pb.h"

namespace moonpool::master {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

void FillVersion(v1::Version* version) {
  version->set_major(kWireMajor);
  version->set_minor(kWireMinor);
}

// One that has so many objects, on a node that nobody speaks for.
std::unique_ptr<Core> CoreWith(int objects) {
  auto core = std::make_unique<Core>(CoreOptions{}, Term{7}, Random(1));
  const absl::Time now = SteadyClock().Now();
  RegisterNodeCommand node{.name = "n1", .incarnation = Incarnation{1}};
  node.segments.push_back(SegmentSpec{SegmentId{0}, "dram", uint64_t{64} << 20});
  const auto registration = core->RegisterNode(node, now);
  EXPECT_THAT(registration, IsOk());
  core->InventoryComplete(registration->node, registration->session, now);
  for (int i = 0; i < objects; ++i) {
    const std::string key = absl::StrCat("k", i);
    const PutKey put[] = {{.key = key, .size_bytes = 100}};
    const auto outcomes =
        core->StartPuts({.request_id = static_cast<uint64_t>(i) + 1, .puts = put}, now);
    const Grant& grant = *outcomes->front().grant;
    const CommitPut commit[] = {{grant.generation, grant.handle}};
    EXPECT_THAT(core->CommitPuts({}, commit, now), IsOk());
  }
  return core;
}

// One client's stream, read by the test's own thread.
class Stream {
 public:
  Stream(v1::EventService::Stub& stub, v1::WatchRequest request = {}) {
    FillVersion(request.mutable_version());
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    reader_ = stub.Watch(&context_, request);
  }
  ~Stream() {
    context_.TryCancel();
    End().IgnoreError();
  }

  // False: it has ended.
  bool Read() {
    v1::EventBatch batch;
    if (!reader_->Read(&batch)) return false;
    if (batch.reset() != 0) resets.push_back(batch.reset());
    for (const v1::Event& event : batch.events()) {
      if (event.kind() == v1::EVENT_CLEARED) stored.clear();
      if (event.kind() == v1::EVENT_STORED) stored.insert(event.key());
      if (event.kind() == v1::EVENT_REMOVED) stored.erase(event.key());
    }
    last = std::move(batch);
    return true;
  }
  // Until so many are stored.
  void Await(size_t count) {
    do {
      ASSERT_TRUE(Read()) << End();
    } while (!last.whole() || stored.size() != count);
  }
  absl::Status End() {
    if (reader_ == nullptr) return absl::OkStatus();
    while (Read()) {
    }
    const absl::Status status = FromGrpc(reader_->Finish());
    reader_ = nullptr;
    return status;
  }

  std::set<std::string> stored;
  std::vector<v1::EventReset> resets;
  v1::EventBatch last;

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::EventBatch>> reader_;
};

class EventServiceTest : public ::testing::Test {
 protected:
  explicit EventServiceTest(Mastership mastership = Mastership::kAlone)
      : server({.listen = "127.0.0.1:0"}, HandlersOptions{}, mastership,
               {clock, registry, log.logger()}) {}
  void Serve(int objects) {
    server.ServeAlone(CoreWith(objects));
    Start();
  }
  void Start() {
    EXPECT_THAT(server.Start(), IsOk());
    const auto channel = grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials());
    stub = v1::EventService::NewStub(channel);
    master = v1::MasterService::NewStub(channel);
  }
  // Its holder confirms nothing, so the answer is that it takes longer.
  void Remove(const std::string& key) {
    v1::RemoveRequest request;
    FillVersion(request.mutable_header()->mutable_version());
    request.mutable_header()->set_timeout_ms(1);
    request.add_keys(key);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::RemoveResponse response;
    EXPECT_THAT(FromGrpc(master->Remove(&context, request, &response)), IsOk());
  }

  SteadyClock clock;
  metrics::Registry registry;
  TestLogger log;
  MasterServer server;
  std::unique_ptr<v1::EventService::Stub> stub;
  std::unique_ptr<v1::MasterService::Stub> master;
};

TEST_F(EventServiceTest, WhatIsStoredAndThenWhatHappens) {
  Serve(2000);
  Stream stream(*stub);
  stream.Await(2000);
  EXPECT_THAT(stream.resets, ElementsAre(v1::RESET_START));
  Remove("k7");
  stream.Await(1999);
  EXPECT_FALSE(stream.stored.contains("k7"));
}

TEST_F(EventServiceTest, AStreamThatWasCutOffGoesOnFromItsToken) {
  Serve(3);
  v1::WatchRequest request;
  {
    Stream first(*stub);
    first.Await(3);
    *request.mutable_resume() = first.last.token();
  }
  Remove("k1");
  Stream second(*stub, request);
  while (second.last.events_size() == 0) ASSERT_TRUE(second.Read());
  EXPECT_THAT(second.last.events(), SizeIs(1));
  EXPECT_EQ(second.last.events(0).key(), "k1");
  EXPECT_TRUE(second.resets.empty());
}

TEST_F(EventServiceTest, AnIdleStreamShowsThatItLives) {
  Serve(0);
  Stream stream(*stub);
  ASSERT_TRUE(stream.Read());
  ASSERT_TRUE(stream.Read());
  EXPECT_EQ(stream.last.events_size(), 0);
  EXPECT_TRUE(stream.last.whole());
}

TEST_F(EventServiceTest, ManyMayFollow) {
  Serve(10);
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 8; ++i) streams.push_back(std::make_unique<Stream>(*stub));
  for (auto& stream : streams) stream->Await(10);
  Remove("k0");
  for (auto& stream : streams) stream->Await(9);
}

TEST_F(EventServiceTest, EndsWithTheMaster) {
  Serve(1);
  Stream stream(*stub);
  stream.Await(1);
  server.Stop();
  const absl::Status end = stream.End();
  EXPECT_TRUE(absl::IsUnavailable(end) || absl::IsCancelled(end)) << end;
}

class StandbyTest : public EventServiceTest {
 protected:
  StandbyTest() : EventServiceTest(Mastership::kElected) { Start(); }
};

TEST_F(StandbyTest, SaysThatItDoesNotLead) {
  Stream stream(*stub);
  EXPECT_EQ(ReasonOf(stream.End()), ErrorReason::kNotLeader);
}

}  // namespace
}  // namespace moonpool::master
