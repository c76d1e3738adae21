#include "tests/sim/sim_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace moonpool::sim {
namespace {

constexpr size_t kOpenViewsMax = 4;

std::vector<std::byte> CopyOf(const View& view) {
  std::vector<std::byte> bytes;
  for (const ConstBuffer piece : view.pieces()) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  }
  return bytes;
}

client::SessionOptions OptionsOf(const ClientWorld& world, transport::Transport* network,
                                 transport::Transport* shared_memory, uint64_t id) {
  client::SessionOptions options;
  options.client_id = id;
  options.seed = world.options.seed * 1000 + id;
  options.peers.paths = {{.transport = shared_memory, .same_host_only = true},
                         {.transport = network}};
  options.peers.host_id = world.options.HostOfClient(id);
  options.spares = {.puts_before = 1, .puts_after_failure = 1};  // it fails often here
  return options;
}

}  // namespace

SimClient::SimClient(ClientWorld world, std::string host, uint64_t id, Random random)
    : world_(world),
      host_(std::move(host)),
      id_(id),
      random_(random),
      stub_(world.masters.NewStub(
          host_, {.on_start = [this] { ++starts_; },
                  .on_sent = [this] { ++sent_; },
                  .on_nonsense = [this](const std::string& what) { Report(what); }})),
      transport_(NewSimTransport(world.fabric, host_)),
      shared_memory_(NewSimSharedMemory(world.fabric, host_)),
      waiter_(NewSimWaiter(world.fabric)),
      client_(*stub_, *waiter_, world.logger,
              OptionsOf(world, transport_.get(), shared_memory_.get(), id)) {}

void SimClient::Crash() {
  crashed_ = true;
  world_.network.Isolate(host_);
  world_.fabric.CloseViewers(host_);
}

void SimClient::Freeze() {
  is_frozen_ = true;
  world_.scheduler.Freeze(host_);
}

void SimClient::Thaw() {
  is_frozen_ = false;
  thawed_at_ = world_.scheduler.Now();
  views_kept_frozen_ += views_.size();
  world_.scheduler.Thaw(host_);
}

void SimClient::Report(const std::string& violation) {
  if (violation.empty() || crashed_ || !world_.violation->empty()) return;
  *world_.violation =
      absl::StrCat(host_, " at ", absl::FormatDuration(world_.scheduler.Now() - absl::UnixEpoch()),
                   ": ", violation);
}

void SimClient::ReportTime(const char* call, const Deadline& deadline) {
  Report(Model::Timed(call, std::max(deadline.at, thawed_at_), world_.scheduler.Now()));
}

void SimClient::ReportOn(const std::string& key, const std::string& violation) {
  if (!violation.empty()) Report(absl::StrCat(violation, world_.model.StoryOf(key)));
}

SimClient::Deadline SimClient::RandomTimeout() {
  // Mostly patient, sometimes so hurried that calls end in the middle.
  const absl::Duration timeout =
      !patient_ && random_.OneIn(8)
          ? absl::Microseconds(300 + static_cast<int64_t>(random_.Below(4000)))
          : absl::Seconds(2 + static_cast<int64_t>(random_.Below(4)));
  return Deadline{.options = {.timeout = timeout, .cancel = {}},
                  .at = world_.scheduler.Now() + timeout};
}

// The master answers a little before the caller's time is over: it is told nine tenths of it, in
// whole milliseconds. Nobody says so much earlier.
bool SimClient::IsTimeout(const absl::Status& status, const Deadline& deadline, absl::Time begun,
                          absl::Time now) {
  const absl::Duration given = deadline.at - begun;
  const absl::Duration least = std::min(given / 2, given * 0.9 - absl::Milliseconds(1));
  return absl::IsDeadlineExceeded(status) && now >= begun + least;
}

std::string SimClient::KeyOf(int chain, int block) const {
  return absl::StrCat("chain", chain, "/", block);
}

std::string SimClient::RandomKey() {
  return KeyOf(static_cast<int>(random_.Below(static_cast<uint64_t>(world_.options.chains))),
               static_cast<int>(random_.Below(static_cast<uint64_t>(world_.options.chain_length))));
}

std::vector<std::string> SimClient::RandomChain() {
  const int chain = static_cast<int>(random_.Below(static_cast<uint64_t>(world_.options.chains)));
  std::vector<std::string> keys;
  for (int block = 0; block < world_.options.chain_length; ++block) {
    keys.push_back(KeyOf(chain, block));
  }
  return keys;
}

void SimClient::Work(absl::Time until) {
  while (!crashed_ && world_.scheduler.Now() < until && world_.violation->empty()) {
    CheckViews();
    const uint64_t draw = random_.Below(100);
    if (draw < 35) {
      Put();
    } else if (draw < 65) {
      std::vector<std::string> keys(1 + random_.Below(5));
      for (std::string& key : keys) key = RandomKey();
      Get(keys);
    } else if (draw < 85) {
      MatchAndGet();
    } else if (draw < 90) {
      Remove();
    } else if (draw < 95) {
      Exists();
    } else {
      LookAt(RandomKey());
    }
    world_.scheduler.Sleep(absl::Microseconds(1 + static_cast<int64_t>(random_.Below(40'000))));
  }
  CheckViews();
  views_.clear();
}

void SimClient::LookAt(const std::string& key) {
  const absl::Time begun = world_.scheduler.Now();
  const Deadline deadline = RandomTimeout();
  absl::StatusOr<View> view = client_.GetView(key, {.call = deadline.options});
  if (crashed_) return;
  ReportTime("GetView", deadline);
  if (!view.ok()) return;
  viewed_.insert(key);
  std::vector<std::byte> bytes = CopyOf(*view);
  if (!view->valid()) return;  // the node died in between
  ReportOn(key, world_.model.Viewed(key, bytes, begun, world_.scheduler.Now()));
  if (views_.size() == kOpenViewsMax) views_.erase(views_.begin());
  views_.push_back({.key = key, .view = *std::move(view), .copy = std::move(bytes)});
}

void SimClient::CheckViews() {
  for (const OpenView& open : views_) {
    if (CopyOf(open.view) != open.copy && open.view.valid()) {
      ReportOn(open.key, absl::StrCat("the bytes of a view of ", open.key, " have changed"));
    }
  }
  std::erase_if(views_,
                [&](const OpenView& open) { return !open.view.valid() || random_.OneIn(30); });
}

void SimClient::Put() {
  if (random_.OneIn(5)) return PutBlocks();
  std::vector<std::string> chain = RandomChain();
  const size_t first = random_.Below(chain.size());
  const size_t count = 1 + random_.Below(std::min<size_t>(4, chain.size() - first));
  std::vector<Value> values;
  for (size_t i = first; i < first + count; ++i) {
    const size_t size = random_.OneIn(10) ? 0 : 8 + random_.Below(world_.options.object_bytes_max);
    values.push_back({.key = chain[i], .parent = i == 0 ? "" : chain[i - 1], .size = size});
  }
  Put(values, {.replicas = random_.OneIn(2) ? 1 : world_.options.replicas,
               .min_replicas = 1,
               .wait_for_space = random_.OneIn(2),
               .wait_for_writer = random_.OneIn(2)});
}

void SimClient::PutBlocks() {
  const size_t size = 8 + world_.options.object_bytes_max / 4;
  const uint32_t replicas = random_.OneIn(2) ? 1 : world_.options.replicas;
  for (int chains = 0; chains < 3 && !crashed_; ++chains) {
    const std::vector<std::string> chain = RandomChain();
    const std::vector<absl::Status> there = client_.Exists(chain, RandomTimeout().options);
    for (size_t i = 0; i < chain.size() && !crashed_ && world_.violation->empty(); ++i) {
      if (there[i].ok() && !random_.OneIn(8)) continue;
      Put({{.key = chain[i], .parent = i == 0 ? "" : chain[i - 1], .size = size}},
          {.replicas = replicas, .wait_for_space = random_.OneIn(2)});
    }
  }
}

void SimClient::Put(const std::vector<Value>& values, PutOptions options) {
  std::vector<uint64_t> attempts;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<PutItem> items;
  for (const auto& [key, parent, size] : values) {
    attempts.push_back(world_.model.PutStarted(key, size, world_.scheduler.Now()));
    bytes.push_back(ValueOf(key, attempts.back(), size));
    // In two pieces, as a layer-wise cache has them.
    const ConstBuffer whole = bytes.back();
    items.push_back(PutItem{.key = key,
                            .value = {whole.subspan(0, size / 3), whole.subspan(size / 3)},
                            .parent = parent});
    world_.model.Wished(key, options.replicas);
  }
  const Deadline deadline = RandomTimeout();
  options.call = deadline.options;
  starts_ = 0;
  const std::vector<absl::Status> results = client_.PutMany(items, options);
  if (crashed_) return;
  const absl::Time now = world_.scheduler.Now();
  ReportTime("PutMany", deadline);
  for (size_t i = 0; i < results.size(); ++i) {
    ReportOn(items[i].key, world_.model.PutEnded(attempts[i], results[i], starts_, now));
  }
}

void SimClient::PutOne(const std::string& key) {
  constexpr size_t kBytes = 64;
  const absl::Time begun = world_.scheduler.Now();
  const uint64_t attempt = world_.model.PutStarted(key, kBytes, begun);
  const std::vector<std::byte> value = ValueOf(key, attempt, kBytes);
  const std::vector<PutItem> items = {{.key = key, .value = {value}}};
  starts_ = 0;
  const std::vector<absl::Status> results =
      client_.PutMany(items, {.call = {.timeout = absl::Seconds(5), .cancel = {}}});
  ReportOn(key, world_.model.PutEnded(attempt, results[0], starts_, world_.scheduler.Now()));
}

void SimClient::Get(const std::vector<std::string>& keys) {
  std::vector<std::vector<std::byte>> buffers(
      keys.size(), std::vector<std::byte>(8 + world_.options.object_bytes_max));
  std::vector<GetItem> items;
  for (size_t i = 0; i < keys.size(); ++i) {
    const MutableBuffer whole = absl::MakeSpan(buffers[i]);
    const size_t cut = random_.Below(whole.size());
    items.push_back({.key = keys[i], .into = {whole.subspan(0, cut), whole.subspan(cut)}});
  }
  const absl::Time begun = world_.scheduler.Now();
  const Deadline deadline = RandomTimeout();
  const std::vector<absl::StatusOr<size_t>> results =
      client_.GetMany(items, {.call = deadline.options});
  if (crashed_) return;
  const absl::Time now = world_.scheduler.Now();
  ReportTime("GetMany", deadline);
  for (size_t i = 0; i < keys.size(); ++i) {
    // A hurried caller has no right to an answer.
    if (IsTimeout(results[i].status(), deadline, begun, now)) continue;
    ReportOn(keys[i], world_.model.GotWhileHeld(keys[i], id_, results[i].status(), begun, now));
    const size_t size = results[i].ok() ? *results[i] : 0;
    ReportOn(keys[i],
             world_.model.Got(keys[i], results[i].status(),
                              absl::MakeConstSpan(buffers[i]).subspan(0, size), begun, now));
  }
}

void SimClient::MatchAndGet() {
  const std::vector<std::string> chain = RandomChain();
  const absl::Time begun = world_.scheduler.Now();
  const Deadline deadline = RandomTimeout();
  const absl::Duration hold = random_.OneIn(2) ? absl::Seconds(2) : absl::ZeroDuration();
  const absl::StatusOr<PrefixMatch> match =
      client_.MatchPrefix(chain, {.call = deadline.options, .hold = hold});
  if (crashed_) return;
  ReportTime("MatchPrefix", deadline);
  if (!match.ok() || match->matched == 0) return;
  const std::vector<std::string> matched(chain.begin(),
                                         chain.begin() + static_cast<ptrdiff_t>(match->matched));
  if (match->held > absl::ZeroDuration()) {
    for (const std::string& key : matched) {
      world_.model.Held(key, id_, begun, begun + match->held);
    }
  }
  Get(matched);
}

void SimClient::Remove() {
  const std::vector<std::string> keys = {RandomKey()};
  const absl::Time begun = world_.scheduler.Now();
  const Deadline deadline = RandomTimeout();
  const uint64_t master = world_.all_knowing_master();
  world_.model.RemoveStarted(keys[0], begun);
  sent_ = 0;
  const std::vector<absl::Status> results = client_.Remove(keys, deadline.options);
  if (crashed_) return;
  const absl::Time now = world_.scheduler.Now();
  ReportTime("Remove", deadline);
  const Model::RemoveEnd end = {
      .begun = begun,
      .timed_out = IsTimeout(results[0], deadline, begun, now),
      .binds_successors = master != 0 && master == world_.all_knowing_master(),
      .sent = sent_};
  ReportOn(keys[0], world_.model.RemoveEnded(keys[0], results[0], end, now));
}

void SimClient::Exists() {
  const Deadline deadline = RandomTimeout();
  const std::vector<std::string> keys = {RandomKey(), RandomKey()};
  const absl::Time begun = world_.scheduler.Now();
  const std::vector<absl::Status> exists = client_.Exists(keys, deadline.options);
  if (crashed_) return;
  ReportTime("Exists", deadline);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!exists[i].ok()) continue;
    ReportOn(keys[i], world_.model.SaidToExist(keys[i], begun, world_.scheduler.Now()));
  }
}

void SimClient::ReadEverything() {
  patient_ = true;
  for (int chain = 0; chain < world_.options.chains; ++chain) {
    for (int block = 0; block < world_.options.chain_length; ++block) {
      const std::string key = KeyOf(chain, block);
      const std::vector<absl::Status> exists = client_.Exists(
          std::vector<std::string>{key}, {.timeout = absl::Seconds(5), .cancel = {}});
      if (exists[0].ok()) {
        const absl::Time now = world_.scheduler.Now();
        ReportOn(key, world_.model.SaidToExist(key, now, now));
      }
      const uint64_t hits_before = client_.stats().hits;
      Get({key});
      if (exists[0].ok() && client_.stats().hits == hits_before) {
        ReportOn(key, absl::StrCat(
                          key, " is said to be stored and cannot be read, with nothing broken"));
      }
    }
  }
}

}  // namespace moonpool::sim
