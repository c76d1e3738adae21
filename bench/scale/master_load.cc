#include "bench/scale/master_load.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/measure/stopwatch.h"
#include "common/status_macros.h"

namespace moonpool::bench {
namespace {

constexpr uint64_t kPayloadBytes = 65536;
constexpr uint64_t kChain = 50;
// Objects of one size leave no holes, but each has a header.
constexpr uint64_t kPercentOfPayload = 101;

std::string KeyOf(uint64_t number) {
  return absl::StrFormat("%040x", number * 0x9e3779b97f4a7c15u);
}

std::vector<std::string> KeysOf(uint64_t first, uint64_t count) {
  std::vector<std::string> keys;
  for (uint64_t i = first; i < first + count; ++i) keys.push_back(KeyOf(i));
  return keys;
}

// As the master's timer: what was put off goes out, and nobody is taken for lost.
constexpr absl::Duration kTickInterval = absl::Milliseconds(1);
constexpr absl::Duration kTimeOfCall = absl::Microseconds(200);

}  // namespace

// `work(first, count)` for each batch; time goes on meanwhile.
template <typename Work>
absl::Status MasterLoad::InBatches(uint64_t first, uint64_t count, Work work) {
  absl::Duration since_tick;
  for (uint64_t at = 0; at < count; at += kBatch) {
    RETURN_IF_ERROR(work(first + at, std::min(kBatch, count - at)));
    since_tick += kTimeOfCall;
    if (since_tick < kTickInterval) continue;
    Move(since_tick);
    Tick();
    since_tick = absl::ZeroDuration();
  }
  return absl::OkStatus();
}

MasterLoad::MasterLoad(uint64_t bytes_per_node)
    : bytes_per_node_(bytes_per_node), core_({}, Term{1}, Random(1)) {}

absl::StatusOr<std::unique_ptr<MasterLoad>> MasterLoad::Start(uint64_t objects, int nodes) {
  const uint64_t per_node = objects / static_cast<uint64_t>(nodes) + 1;
  std::unique_ptr<MasterLoad> load(
      new MasterLoad(per_node * kPayloadBytes / 100 * kPercentOfPayload));
  for (int i = 0; i < nodes; ++i) {
    Node& node = load->nodes_.emplace_back();
    node.name = absl::StrCat("node-", i);
    RETURN_IF_ERROR(load->Register(node));
  }
  return load;
}

absl::Status MasterLoad::Register(Node& node) {
  const Turn turn(turns_);
  master::RegisterNodeCommand command{.name = node.name,
                                      .incarnation = Incarnation{++node.incarnation}};
  command.segments.push_back({SegmentId{0}, "dram", bytes_per_node_});
  ASSIGN_OR_RETURN(const master::Registration registration, core_.RegisterNode(command, now_));
  node.id = registration.node;
  node.session = registration.session;
  core_.InventoryComplete(node.id, node.session, now_);
  ConfirmFrees();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<master::PutOutcome>> MasterLoad::StartPuts(uint64_t first,
                                                                      uint64_t count) {
  const std::vector<std::string> keys = KeysOf(first, count);
  const std::string before = first % kChain == 0 ? "" : KeyOf(first - 1);
  std::vector<master::PutKey> puts;
  for (uint64_t i = 0; i < count; ++i) {
    absl::string_view parent = i == 0 ? before : keys[i - 1];
    if ((first + i) % kChain == 0) parent = {};
    puts.push_back({.key = keys[i], .size_bytes = kPayloadBytes, .parent = parent});
  }
  const Turn turn(turns_);
  auto outcomes = core_.StartPuts({.request_id = next_request_++, .puts = puts}, now_);
  ConfirmFrees();
  return outcomes;
}

absl::Status MasterLoad::PutBatch(uint64_t first, uint64_t count) {
  ASSIGN_OR_RETURN(const std::vector<master::PutOutcome> outcomes, StartPuts(first, count));
  std::vector<master::CommitPut> commits;
  for (const master::PutOutcome& outcome : outcomes) {
    RETURN_IF_ERROR(outcome.status);
    master::CommitPut& commit = commits.emplace_back();
    commit.generation = outcome.grant->generation;
    commit.handle = outcome.grant->handle;
  }
  const Turn turn(turns_);
  ASSIGN_OR_RETURN(const std::vector<master::CommitOutcome> committed,
                   core_.CommitPuts({}, commits, now_));
  for (const master::CommitOutcome& outcome : committed) RETURN_IF_ERROR(outcome.status);
  return absl::OkStatus();
}

absl::Status MasterLoad::Put(uint64_t count) {
  const uint64_t first = next_put_;
  next_put_ += count;
  return InBatches(first, count, [&](uint64_t at, uint64_t some) { return PutBatch(at, some); });
}

absl::Status MasterLoad::Remove(uint64_t count) {
  const uint64_t first = next_removed_;
  next_removed_ += count;
  return InBatches(first, count, [&](uint64_t at, uint64_t some) {
    const std::vector<std::string> keys = KeysOf(at, some);
    const std::vector<absl::string_view> views(keys.begin(), keys.end());
    const Turn turn(turns_);
    const auto outcomes = core_.Remove({}, views, now_);
    ConfirmFrees();
    return outcomes.status();
  });
}

absl::Status MasterLoad::LetExpire(uint64_t count) {
  // More than may be open at a time come in several turns.
  const uint64_t most = master::CoreOptions().max_open_grants / 2;
  for (uint64_t granted = 0; granted < count; granted += most) {
    // Nobody else has these numbers.
    const uint64_t first = (uint64_t{1} << 62) + granted;
    RETURN_IF_ERROR(
        InBatches(first, std::min(most, count - granted),
                  [&](uint64_t at, uint64_t some) { return StartPuts(at, some).status(); }));
    Advance(master::CoreOptions().max_grant);
  }
  return absl::OkStatus();
}

absl::Status MasterLoad::LoseNode(int index) {
  Node& node = nodes_[static_cast<size_t>(index)];
  {
    const Turn turn(turns_);
    core_.NodeDisconnected(node.id, node.session, now_);
  }
  Advance(master::CoreOptions().node_loss_timeout);
  return Register(node);
}

absl::StatusOr<absl::Duration> MasterLoad::LocateSome(Random& random) {
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < kBatch; ++i) keys.push_back(KeyOf(random.Next() % next_put_));
  const std::vector<absl::string_view> views(keys.begin(), keys.end());
  const Stopwatch watch;
  const Turn turn(turns_);
  RETURN_IF_ERROR(core_.Locate({.keys = views}, now_).status());
  return watch.elapsed();
}

uint64_t MasterLoad::object_count() const {
  const Turn turn(turns_);
  return core_.GetStatus(now_).objects;
}

void MasterLoad::ConfirmFrees() {
  for (const master::FreeCommand& free : core_.TakeEffects().frees) {
    core_.CommandResult(free.node, free.session, free.command_id, absl::OkStatus(), now_);
  }
}

void MasterLoad::Move(absl::Duration duration) {
  const Turn turn(turns_);
  now_ += duration;
  for (const Node& node : nodes_) core_.Heartbeat(node.id, node.session, now_);
}

bool MasterLoad::Tick() {
  const Turn turn(turns_);
  const bool is_more = core_.Tick(now_);
  ConfirmFrees();
  return is_more;
}

void MasterLoad::Advance(absl::Duration duration) {
  Move(duration);
  while (true) {
    const Stopwatch watch;
    if (!Tick()) return;
    std::this_thread::sleep_for(absl::ToChronoNanoseconds(watch.elapsed()));
  }
}

}  // namespace moonpool::bench
