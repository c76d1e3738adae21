// Random histories of one master: elections, lapses, calls, nodes and writes in any order. Whatever
// happens, every call is answered once, nobody is admitted without a lease, and all that has ended
// can be destroyed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/random.h"
#include "master/handlers/handlers_fixture.h"
#include "master/handlers/reigns.h"
#include "master/meta/testing/memory_meta_store.h"

namespace moonpool::master {
namespace {

constexpr int kHistories = 200;
constexpr int kSteps = 400;

class History {
 public:
  explicit History(uint64_t seed) : random_(seed) {}

  void Run() {
    for (int step = 0; step < kSteps && !testing::Test::HasFailure(); ++step) {
      Step();
      Check();
    }
    End();
  }

 private:
  struct Call {
    Answer<v1::StartPutsResponse> put;
    Answer<v1::OpenNamespaceResponse> open;
    Reign reign;
    CallId id;
    int answers() const { return put.count + open.count; }
  };
  struct Stream {
    std::unique_ptr<NodeSession> session;
    Reign reign;
  };

  void Step() {
    switch (random_.Below(14)) {
      case 0: return Elect();
      case 1:
      case 2: return Begin();
      case 3:
        if (random_.OneIn(3)) Lose();
        return;
      case 4: return Event({.kind = ElectionEvent::Kind::kFollower, .leader = "b:2"});
      case 5:
      case 6: return leadership_.Extend(now_ + absl::Seconds(2));
      case 7: return Put();
      case 8: return Open();
      case 9: return Cancel();
      case 10: return Join();
      case 11: return Serve();
      case 12: return FinishWrite();
      default: return Pass();
    }
  }
  void Event(ElectionEvent event) {
    reigns_.OnElection(event, now_);
    TakeWrite();
  }
  void Elect() {
    const Reign reign{++last_reign_};
    leadership_.Begin(reign, now_ + absl::Seconds(2));
    Event({.kind = ElectionEvent::Kind::kLeader, .term = Term{7}, .reign = reign});
  }
  void Lose() {
    leadership_.End();
    Event({.kind = ElectionEvent::Kind::kLost});
    EXPECT_EQ(reigns_.present(), nullptr);
  }
  void Begin() {
    // At times what was loaded is of a reign that is over.
    const Reign reign{last_reign_ - (random_.OneIn(4) ? 1 : 0)};
    const bool is_due = reigns_.to_begin().has_value() && reigns_.to_begin()->reign == reign;
    EXPECT_EQ(reigns_.Begin(reign, std::make_unique<MemoryMetaStore>(disk_),
                            std::make_unique<Core>(CoreOptions{}, Term{7}, Random(random_.Next()),
                                                   DurableState{}),
                            now_),
              is_due);
  }
  // With a call that was admitted, or nullptr.
  Call* Admit() {
    const auto admission = reigns_.Admit(now_);
    if (!admission.ok()) {
      EXPECT_THAT(admission, Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kNotLeader));
      return nullptr;
    }
    calls_.push_back(std::make_unique<Call>());
    calls_.back()->reign = admission->reign;
    return calls_.back().get();
  }
  void Put() {
    Call* const call = Admit();
    if (call == nullptr) return;
    v1::StartPutsRequest request;
    FillVersion(request.mutable_header()->mutable_version());
    request.mutable_header()->set_client_id(1);
    request.mutable_header()->set_timeout_ms(random_.OneIn(2) ? 500 : 60'000);
    request.set_request_id(++last_request_);
    request.set_wait_for_space(true);
    request.add_puts()->set_key(std::string(1, static_cast<char>('a' + random_.Below(20))));
    request.mutable_puts(0)->set_size_bytes(200'000);
    call->id = reigns_.Find(call->reign)->StartPuts(request, now_, call->put.done());
    TakeWrite();
  }
  void Open() {
    Call* const call = Admit();
    if (call == nullptr) return;
    v1::OpenNamespaceRequest request;
    FillVersion(request.mutable_header()->mutable_version());
    request.mutable_header()->set_namespace_(
        std::string(1, static_cast<char>('a' + random_.Below(20))));
    request.set_fingerprint("f");
    call->id = reigns_.Find(call->reign)->OpenNamespace(request, now_, call->open.done());
    TakeWrite();
  }
  void Cancel() {
    if (calls_.empty()) return;
    const Call& call = *calls_[random_.Below(calls_.size())];
    Handlers* const handlers = reigns_.Find(call.reign);
    if (handlers != nullptr) handlers->Cancel(call.id, now_);
  }
  void Join() {
    const auto admission = reigns_.Admit(now_);
    if (!admission.ok() || streams_.size() >= 4) return;
    auto session = admission->handlers->OpenSession([] {}, now_);
    ASSERT_THAT(session, IsOk());
    v1::NodeMessage message;
    v1::Register* out = message.mutable_register_();
    FillVersion(out->mutable_version());
    out->set_name(std::string(1, static_cast<char>('a' + random_.Below(3))));
    out->set_incarnation(1);
    out->set_tcp_address("127.0.0.1:1");
    v1::Segment* segment = out->add_segments();
    segment->set_medium("dram");
    segment->set_capacity_bytes(1 << 20);
    admission->handlers->OnNodeMessage(**session, message, now_);
    streams_.push_back({.session = *std::move(session), .reign = admission->reign});
    TakeWrite();
  }
  // Some node says something and takes what there is for it; streams that have ended, end.
  void Serve() {
    if (streams_.empty()) return;
    const size_t i = random_.Below(streams_.size());
    Stream& stream = streams_[i];
    Handlers* const handlers = reigns_.Find(stream.reign);
    ASSERT_NE(handlers, nullptr) << "a session outlives its reign";
    v1::NodeMessage message;
    if (random_.OneIn(2)) {
      message.mutable_heartbeat()->set_sequence(1);
    } else {
      message.mutable_inventory()->set_complete(true);
    }
    handlers->OnNodeMessage(*stream.session, message, now_);
    while (stream.session->TakeMessage().has_value()) {
    }
    if (!stream.session->is_finished() && !random_.OneIn(8)) return;
    handlers->CloseSession(*stream.session, now_);
    streams_.erase(streams_.begin() + static_cast<ptrdiff_t>(i));
    TakeWrite();
  }
  void TakeWrite() {
    if (auto due = reigns_.TakeWrite(now_)) writes_.push_back(*std::move(due));
  }
  void FinishWrite() {
    if (writes_.empty()) return;
    Reigns::DueWrite write = std::move(writes_.front());
    writes_.erase(writes_.begin());
    const uint64_t fate = random_.Below(10);
    const absl::Status status =
        fate == 0   ? MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm, "x")
        : fate == 1 ? absl::UnavailableError("away")
                    : absl::OkStatus();
    reigns_.OnWritten(write.reign, status, now_);
    if (auto next = reigns_.EndWrite(write.reign, true, now_)) writes_.push_back(*std::move(next));
  }
  void Pass() {
    now_ += absl::Milliseconds(random_.Below(1500));
    reigns_.Tick(now_);
    TakeWrite();
    if (random_.OneIn(2)) reigns_.TakeEnded();
  }

  void Check() {
    const auto admission = reigns_.Admit(now_);
    EXPECT_TRUE(!admission.ok() || leadership_.ReignAt(now_) == admission->reign);
    for (const auto& call : calls_) EXPECT_LE(call->answers(), 1);
    if (reigns_.present() != nullptr) {
      EXPECT_THAT(reigns_.present()->core->CheckInvariants(), IsOk());
    }
  }
  void End() {
    reigns_.Shutdown(now_);
    for (const auto& call : calls_) EXPECT_EQ(call->answers(), 1);
    for (Stream& stream : streams_) stream.session.reset();
    while (!writes_.empty()) FinishWrite();
    const size_t ended = reigns_.TakeEnded().size();
    EXPECT_EQ(reigns_.TakeEnded().size(), 0u) << ended;
    EXPECT_FALSE(reigns_.has_ended());
  }

  Random random_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  int64_t last_reign_ = 0;
  uint64_t last_request_ = 0;
  MemoryDisk disk_;
  Leadership leadership_;
  Reigns reigns_{Mastership::kElected, leadership_, HandlersOptions{}};
  std::vector<std::unique_ptr<Call>> calls_;
  std::vector<Stream> streams_;
  std::vector<Reigns::DueWrite> writes_;  // under way, one for each reign at most
};

TEST(ReignsModel, EveryCallIsAnsweredOnceAndNothingStaysBehind) {
  for (uint64_t seed = 1; seed <= kHistories; ++seed) {
    SCOPED_TRACE(seed);
    History(seed).Run();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace moonpool::master
