// An election whose etcd is honest at times, and else says anything, late, twice or not at all: it
// leads no longer than a lease after it last heard of one, asks for no more than three things at
// once, and never turns on the spot.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/check.h"
#include "common/log.h"
#include "common/metrics/metrics.h"
#include "master/election/election.h"
#include "master/etcd/testing/fake_etcd.h"
#include "tests/fuzz/byte_feed.h"

namespace moonpool::master {
namespace {

constexpr absl::Duration kLease = absl::Seconds(2);
constexpr int kStepsMax = 2000;
constexpr size_t kAnsweredMax = 16;
constexpr size_t kCallsMax = 3;  // at once: a look, a renewal, a watch

class Scene {
 public:
  explicit Scene(ByteFeed& feed) : feed_(feed) {}

  void Run() {
    Tick();
    for (int step = 0; step < kStepsMax && !feed_.empty(); ++step) {
      Step();
      Check();
    }
  }

 private:
  struct Open {
    ElectionCall call;
    absl::Time sent;
  };

  void Step() {
    switch (feed_.Below(9)) {
      case 0: return ServeHonestly();
      case 1: return Advance();
      case 2: return Answer(absl::Status(AnyCode(), "as told"));
      case 3: return Answer(AnyAnswer());
      case 4: return Take(election_.RaiseTerm(Term{feed_.Number32()}, now_));
      case 5: return MaybeResign();
      case 6: return Write(EtcdPut{.key = AnyKey(), .value = std::string(feed_.Bytes())});
      case 7: return Write(EtcdDelete{AnyKey()});
      default: return AnswerAgain();
    }
  }

  void Tick() {
    Take(election_.Tick(now_));
    MP_CHECK(wake_at_ > now_, "what is due is not done");
  }
  void Take(ElectionOutput out) {
    MP_CHECK(out.calls.size() <= kCallsMax, "calls without end", out.calls.size());
    for (ElectionCall& call : out.calls) {
      MP_CHECK(call.timeout > absl::ZeroDuration(), "a call without time");
      MP_CHECK(!has_resigned_ || std::holds_alternative<EtcdRevokeLease>(call.request),
               "asks for more after its resignation");
      open_.push_back({std::move(call), now_});
    }
    for (const ElectionEvent& event : out.events) {
      MP_CHECK(event.kind != ElectionEvent::Kind::kLeader || event.term != Term{}, "no term");
    }
    wake_at_ = out.wake_at;
  }

  void Advance() {
    now_ += absl::Milliseconds(static_cast<int64_t>(feed_.Number() % 10'000));
    etcd_.ExpireLeases(now_);
    // Each call ends by its timeout, so none is open for long.
    for (size_t i = 0; i < open_.size();) {
      if (open_[i].sent + open_[i].call.timeout <= now_) {
        Finish(i, absl::DeadlineExceededError("no answer"));
      } else {
        ++i;
      }
    }
    Tick();
  }
  void ServeHonestly() {
    if (open_.empty()) return Advance();
    const size_t i = feed_.Below(open_.size());
    Finish(i, etcd_.Apply(open_[i].call.request, now_));
  }
  void Answer(absl::StatusOr<EtcdAnswer> answer) {
    if (!open_.empty()) Finish(feed_.Below(open_.size()), std::move(answer));
  }
  void AnswerAgain() {
    const uint64_t id =
        answered_.empty() ? feed_.Number() : answered_[feed_.Below(answered_.size())];
    for (const Open& open : open_) {
      if (open.call.id == id) return;
    }
    const ElectionState before = election_.state();
    Take(election_.OnAnswer(id, AnyAnswer(), now_));
    MP_CHECK(election_.state() == before, "an answer to nothing had an effect");
  }
  void Finish(size_t i, absl::StatusOr<EtcdAnswer> answer) {
    const Open open = std::move(open_[i]);
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
    if (answered_.size() == kAnsweredMax) answered_.erase(answered_.begin());
    answered_.push_back(open.call.id);
    const bool is_of_lease = std::holds_alternative<EtcdGrantLease>(open.call.request) ||
                             std::holds_alternative<EtcdKeepAlive>(open.call.request);
    if (is_of_lease && answer.ok() && std::holds_alternative<EtcdLease>(*answer)) {
      renewed_ = std::max(renewed_, open.sent);
    }
    Take(election_.OnAnswer(open.call.id, std::move(answer), now_));
  }
  void MaybeResign() {
    if (!feed_.OneIn(8)) return;
    has_resigned_ = true;
    Take(election_.Resign(now_));
  }
  void Write(EtcdOp op) {
    MP_CHECK(etcd_.Apply(EtcdTxn{.success = {std::move(op)}}, now_).ok(), "the fake refuses");
  }

  std::string AnyKey() { return feed_.OneIn(2) ? "/t/term" : "/t/leader"; }
  absl::StatusCode AnyCode() { return static_cast<absl::StatusCode>(1 + feed_.Below(16)); }
  EtcdKeyValue AnyRecord() {
    const std::string key = AnyKey();
    return {.key = key,
            .value = feed_.OneIn(2) ? std::string(feed_.Bytes()) : etcd_.Value(key),
            .create_revision = static_cast<int64_t>(feed_.Number()),
            .mod_revision = static_cast<int64_t>(feed_.Number()),
            .lease = static_cast<int64_t>(feed_.Number())};
  }
  EtcdRange AnyRange() {
    EtcdRange range;
    for (size_t left = feed_.Below(3); left > 0; --left) range.records.push_back(AnyRecord());
    return range;
  }
  EtcdAnswer AnyAnswer() {
    switch (feed_.Below(4)) {
      case 0: {
        EtcdTxnResult result{.succeeded = feed_.OneIn(2),
                             .revision = static_cast<int64_t>(feed_.Number())};
        for (size_t left = feed_.Below(4); left > 0; --left) result.ranges.push_back(AnyRange());
        return result;
      }
      case 1:
        return EtcdLease{.lease = static_cast<int64_t>(feed_.Number()),
                         .ttl = absl::Seconds(static_cast<int64_t>(feed_.Number()))};
      case 2: return AnyRange();
      default: return EtcdDone{};
    }
  }

  void Check() const {
    const Leadership& leadership = election_.leadership();
    if (!leadership.IsLeaderAt(now_)) return;
    MP_CHECK(!has_resigned_, "leads after its resignation");
    MP_CHECK(election_.state() == ElectionState::kLeading, "leads, and does not know it");
    MP_CHECK(leadership.deadline() < renewed_ + kLease, "leads for longer than its lease");
  }

  ByteFeed& feed_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  absl::Time wake_at_;
  absl::Time renewed_ = absl::InfinitePast();
  bool has_resigned_ = false;
  FakeEtcd etcd_;
  std::vector<Open> open_;
  std::vector<uint64_t> answered_;
  metrics::Registry registry_;
  ElectionMetrics metrics_{registry_};
  Leadership leadership_;
  Election election_{{.prefix = "/t", .address = "a:1", .lease = kLease},
                     Random(1),
                     leadership_,
                     metrics_,
                     Logger::Null()};
};

}  // namespace
}  // namespace moonpool::master

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  moonpool::ByteFeed feed(data, size);
  moonpool::master::Scene(feed).Run();
  return 0;
}
