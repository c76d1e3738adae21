#include "cli/kv_events/kv_replay.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "cli/kv_events/sequence.h"

namespace moonpool::cli {
namespace {

constexpr absl::Duration kIdlePoll = absl::Milliseconds(100);  // and it sees that it is to stop
// ZeroMQ cannot say when one certain peer has room again: he is tried, the longer the rarer.
constexpr absl::Duration kRetryMin = absl::Milliseconds(1);
constexpr absl::Duration kRetryMax = absl::Milliseconds(100);
constexpr absl::Duration kSnapshotPoll = absl::Milliseconds(5);
constexpr absl::Duration kStalledMax = absl::Minutes(1);     // then he is forgotten
constexpr absl::Duration kGivesWayAfter = absl::Seconds(1);  // stalled, where others wait
constexpr int kRequestsPerRound = 64;
constexpr size_t kRequestFrames = 3;       // [who, "", from]
constexpr int kBatchesPerTurn = 64;        // then it is the next one's turn
constexpr size_t kBytesPerTurn = 1 << 20;  // and so when this is reached
constexpr int kSnapshotsPerAnswer = 3;     // one is void when what follows it is not kept any more
constexpr uint64_t kEndOfReplay = ~uint64_t{0};  // -1

}  // namespace

KvReplay::KvReplay(KvReplayOptions options, const KeptBatches& kept, ZmqSocket socket)
    : options_(std::move(options)),
      kept_(kept),
      clock_(options_.clock != nullptr ? *options_.clock : steady_clock_),
      endpoint_(socket.endpoint()),
      socket_(std::move(socket)),
      taker_(options_.snapshot == nullptr ? nullptr
                                          : std::make_unique<SnapshotTaker>(options_.snapshot)),
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
    TakeRequests(patience);
    FetchSnapshot();
    patience = ServeAll();
    BeginSnapshot();
  }
}

void KvReplay::TakeRequests(absl::Duration patience) {
  for (int i = 0; i < kRequestsPerRound; ++i) {
    const auto request = socket_.Receive(i == 0 ? patience : absl::ZeroDuration(), kRequestFrames);
    if (!request.has_value()) return;
    Take(*request);
  }
}

void KvReplay::Take(const std::vector<std::string>& request) {
  // [who, "", from]; what is anything else was sent by nobody who wants an answer.
  if (request.size() != kRequestFrames || request[2].size() != kSequenceBytes) return;
  const uint64_t from = SequenceOf(request[2]);
  auto asker = std::find_if(askers_.begin(), askers_.end(),
                            [&](const Asker& known) { return known.who == request[0]; });
  if (asker == askers_.end()) {
    if (!HasRoomForAsker()) return;
    asker = askers_.insert(askers_.end(), Asker{.who = request[0]});
  }
  *asker = {.who = request[0],
            .next = from,
            .needs = from,
            .stalled_since = asker->stalled_since,
            .try_at = asker->try_at};
}

bool KvReplay::HasRoomForAsker() {
  if (askers_.size() < options_.askers_max) return true;
  const auto slowest = std::min_element(
      askers_.begin(), askers_.end(),
      [](const Asker& a, const Asker& b) { return a.stalled_since < b.stalled_since; });
  if (clock_.Now() - slowest->stalled_since < kGivesWayAfter) return false;
  askers_.erase(slowest);
  return true;
}

absl::Duration KvReplay::ServeAll() {
  absl::Duration idle = kIdlePoll;
  for (auto asker = askers_.begin(); asker != askers_.end() && !is_stopping();) {
    const absl::Time now = clock_.Now();
    if (now < asker->try_at) {
      idle = std::min(idle, asker->try_at - now);
      ++asker;
      continue;
    }
    const Turn turn = Serve(*asker);
    if (turn == Turn::kMore) idle = absl::ZeroDuration();
    if (turn == Turn::kFull) idle = std::min(idle, kRetryMin);
    if (turn == Turn::kAwaits) idle = std::min(idle, kSnapshotPoll);
    asker = Settle(*asker, turn) ? askers_.erase(asker) : asker + 1;
  }
  return idle;
}

bool KvReplay::Settle(Asker& asker, Turn turn) {
  if (turn == Turn::kOver) return true;
  if (turn != Turn::kFull) {
    asker.stalled_since = absl::InfiniteFuture();
    return false;
  }
  const absl::Time now = clock_.Now();
  asker.stalled_since = std::min(asker.stalled_since, now);
  const absl::Duration stalled = now - asker.stalled_since;
  asker.try_at = now + std::clamp(stalled / 8, kRetryMin, kRetryMax);
  return stalled >= kStalledMax;
}

KvReplay::Turn KvReplay::Serve(Asker& asker) {
  size_t bytes = 0;
  for (int i = 0; i < kBatchesPerTurn && bytes < kBytesPerTurn; ++i) {
    const Next next = NextFor(asker);
    if (next.is_awaited) return Await(asker);
    const ZmqSocket::Sent sent =
        next.batch.has_value()
            ? Send(asker, options_.topic, next.batch->number, *next.batch->payload)
            : Send(asker, "", kEndOfReplay, "");
    // Who has taken some in this turn is not stalled.
    if (sent == ZmqSocket::Sent::kNoRoom) {
      if (i > 0) asker.stalled_since = absl::InfiniteFuture();
      return Turn::kFull;
    }
    if (sent == ZmqSocket::Sent::kGone || !next.batch.has_value()) return Turn::kOver;
    bytes += next.batch->payload->size();
    if (asker.snapshot != nullptr && asker.told < asker.snapshot->size()) ++asker.told;
    asker.next = next.batch->number + 1;
    asker.needs = std::max(asker.needs, asker.next);
  }
  return Turn::kMore;
}

KvReplay::Turn KvReplay::Await(Asker& asker) {
  // The snapshot itself has to have a number, too.
  if (!asker.is_probed && options_.cleared != nullptr && kept_.next() - asker.next >= 2) {
    const ZmqSocket::Sent sent = Send(asker, options_.topic, asker.next, options_.cleared());
    if (sent == ZmqSocket::Sent::kNoRoom) return Turn::kFull;
    if (sent == ZmqSocket::Sent::kGone) return Turn::kOver;
    ++asker.next;
    asker.is_probed = true;
  }
  asker.awaits = true;
  return Turn::kAwaits;
}

KvReplay::Next KvReplay::NextFor(Asker& asker) {
  const auto of_snapshot = [&asker] {
    // It lives as long as its batch is being sent: the asker has it.
    const std::string& payload = (*asker.snapshot)[asker.told];
    return Next{.batch = KeptBatches::Batch{
                    .number = asker.next,
                    .payload = std::shared_ptr<const std::string>(asker.snapshot, &payload)}};
  };
  if (asker.snapshot != nullptr && asker.told < asker.snapshot->size()) return of_snapshot();
  const std::optional<KeptBatches::Batch> batch = kept_.From(asker.next);
  // After it was looked for: what was there then was not lost before.
  if (!kept_.HasLost(asker.needs)) return {.batch = batch};
  const std::shared_ptr<const Snapshot> last = snapshot_.lock();
  if (last != nullptr && !kept_.HasLost(snapshot_next_) && GiveSnapshot(asker, last)) {
    return of_snapshot();
  }
  if (taker_ != nullptr && asker.snapshots < kSnapshotsPerAnswer) return {.is_awaited = true};
  {
    absl::MutexLock lock(&mutex_);
    has_gap_ = true;
  }
  if (batch.has_value()) asker.needs = batch->number;  // said once
  return {.batch = batch};
}

bool KvReplay::GiveSnapshot(Asker& asker, std::shared_ptr<const Snapshot> snapshot) {
  if (asker.next + snapshot->size() > snapshot_next_) return false;
  asker.snapshot = std::move(snapshot);
  asker.told = 0;
  asker.needs = snapshot_next_;
  return true;
}

void KvReplay::BeginSnapshot() {
  if (taker_ == nullptr || taker_->is_busy()) return;
  const uint64_t next = kept_.next();
  uint64_t batches_max = 0;
  for (const Asker& asker : askers_) {
    if (!asker.awaits) continue;
    const uint64_t room = next - asker.next;
    batches_max = batches_max == 0 ? room : std::min(batches_max, room);
  }
  if (batches_max == 0) return;
  taking_next_ = next;
  taker_->Begin(batches_max);
}

void KvReplay::FetchSnapshot() {
  if (taker_ == nullptr) return;
  auto taken = taker_->TakeDone();
  if (!taken.has_value()) return;
  std::shared_ptr<const Snapshot> snapshot;
  if (taken->ok()) snapshot = std::make_shared<const Snapshot>(**std::move(taken));
  snapshot_ = snapshot;
  snapshot_next_ = taking_next_;
  for (Asker& asker : askers_) {
    if (!std::exchange(asker.awaits, false)) continue;
    asker.snapshots = snapshot == nullptr ? kSnapshotsPerAnswer : asker.snapshots + 1;
    if (snapshot != nullptr) GiveSnapshot(asker, snapshot);
  }
}

ZmqSocket::Sent KvReplay::Send(const Asker& asker, absl::string_view topic, uint64_t number,
                               absl::string_view payload) {
  const std::string frame = SequenceFrame(number);
  if (options_.sends_topic) return socket_.Send({asker.who, "", topic, frame, payload});
  return socket_.Send({asker.who, "", frame, payload});
}

}  // namespace moonpool::cli
