#include "cli/kv_events/kv_replay.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "cli/kv_events/sequence.h"

namespace moonpool::cli {
namespace {

constexpr absl::Duration kIdlePoll = absl::Milliseconds(100);  // and it sees that it is to stop
// ZeroMQ cannot say when one certain peer has room again.
constexpr absl::Duration kFullPoll = absl::Milliseconds(5);
constexpr int kRefusalsMax = 12'000;    // then he has read nothing for a minute, and is forgotten
constexpr size_t kAskersMax = 1024;     // more requests are passed over
constexpr int kBatchesPerTurn = 64;     // then it is the next one's turn
constexpr int kSnapshotsPerAnswer = 3;  // one is void when what follows it is not kept any more
constexpr uint64_t kEndOfReplay = ~uint64_t{0};  // -1

}  // namespace

KvReplay::KvReplay(KvReplayOptions options, const KeptBatches& kept, ZmqSocket socket)
    : options_(std::move(options)),
      kept_(kept),
      endpoint_(socket.endpoint()),
      socket_(std::move(socket)),
      thread_([this] {
        pthread_setname_np(pthread_self(), "replay");
        Run();
      }) {}

KvReplay::~KvReplay() {
  {
    absl::MutexLock lock(&mutex_);
    is_stopping_ = true;
  }
  thread_.join();
}

bool KvReplay::TakeGap() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(has_gap_, false);
}

bool KvReplay::is_stopping() const {
  absl::MutexLock lock(&mutex_);
  return is_stopping_;
}

void KvReplay::Run() {
  absl::Duration patience = kIdlePoll;
  while (!is_stopping()) {
    if (const auto request = socket_.Receive(patience)) Take(*request);
    const bool has_served = ServeAll();
    patience = askers_.empty() ? kIdlePoll : has_served ? absl::ZeroDuration() : kFullPoll;
  }
}

void KvReplay::Take(const std::vector<std::string>& request) {
  // [who, "", from]; what is anything else was sent by nobody who wants an answer.
  if (request.size() != 3 || request[2].size() != kSequenceBytes) return;
  if (askers_.size() >= kAskersMax) return;
  const uint64_t from = SequenceOf(request[2]);
  askers_.push_back({.who = request[0], .next = from, .needs = from});
}

bool KvReplay::ServeAll() {
  bool has_served = false;
  for (auto asker = askers_.begin(); asker != askers_.end() && !is_stopping();) {
    // Who asks again before he has his answer has the next one after it.
    const bool is_later = std::any_of(
        askers_.begin(), asker, [&](const Asker& earlier) { return earlier.who == asker->who; });
    const Turn turn = is_later ? Turn::kFull : Serve(*asker);
    has_served = has_served || turn != Turn::kFull;
    if (!is_later) asker->refusals = turn == Turn::kFull ? asker->refusals + 1 : 0;
    const bool is_over = turn == Turn::kOver || asker->refusals >= kRefusalsMax;
    asker = is_over ? askers_.erase(asker) : asker + 1;
  }
  return has_served;
}

KvReplay::Turn KvReplay::Serve(Asker& asker) {
  for (int i = 0; i < kBatchesPerTurn; ++i) {
    const std::optional<KeptBatches::Batch> batch = NextFor(asker);
    const ZmqSocket::Sent sent = batch.has_value()
                                     ? Send(asker, options_.topic, batch->number, batch->payload)
                                     : Send(asker, "", kEndOfReplay, "");
    if (sent == ZmqSocket::Sent::kNoRoom) return Turn::kFull;
    if (sent == ZmqSocket::Sent::kGone || !batch.has_value()) return Turn::kOver;
    if (asker.snapshot != nullptr && asker.told < asker.snapshot->size()) ++asker.told;
    asker.next = batch->number + 1;
    asker.needs = std::max(asker.needs, asker.next);
  }
  return Turn::kMore;
}

std::optional<KeptBatches::Batch> KvReplay::NextFor(Asker& asker) {
  const auto of_snapshot = [&asker] {
    return KeptBatches::Batch{.number = asker.next, .payload = (*asker.snapshot)[asker.told]};
  };
  if (asker.snapshot != nullptr && asker.told < asker.snapshot->size()) return of_snapshot();
  const std::optional<KeptBatches::Batch> batch = kept_.From(asker.next);
  // After it was looked for: what was there then was not lost before.
  if (kept_.HasLost(asker.needs) && GiveSnapshot(asker)) return of_snapshot();
  return batch;
}

bool KvReplay::GiveSnapshot(Asker& asker) {
  asker.told = 0;
  asker.snapshot = snapshot_.lock();
  const bool is_good = asker.snapshot != nullptr && !kept_.HasLost(snapshot_next_) &&
                       asker.next + asker.snapshot->size() <= snapshot_next_;
  if (!is_good) {
    asker.snapshot = nullptr;
    const uint64_t next = kept_.next();
    absl::StatusOr<Snapshot> taken = absl::UnavailableError("there are no snapshots");
    if (options_.snapshot != nullptr && asker.snapshots++ < kSnapshotsPerAnswer) {
      taken = options_.snapshot(next - asker.next);
    }
    if (!taken.ok() || taken->empty()) {
      absl::MutexLock lock(&mutex_);
      has_gap_ = true;
      return false;
    }
    asker.snapshot = std::make_shared<const Snapshot>(*std::move(taken));
    snapshot_ = asker.snapshot;
    snapshot_next_ = next;
  }
  asker.needs = snapshot_next_;
  return true;
}

ZmqSocket::Sent KvReplay::Send(const Asker& asker, absl::string_view topic, uint64_t number,
                               absl::string_view payload) {
  const std::string frame = SequenceFrame(number);
  if (options_.sends_topic) return socket_.Send({asker.who, "", topic, frame, payload});
  return socket_.Send({asker.who, "", frame, payload});
}

}  // namespace moonpool::cli
