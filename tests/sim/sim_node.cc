#include "tests/sim/sim_node.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"

namespace moonpool::sim {
namespace {

// Seals are looked for this often; a real node is woken by them.
constexpr absl::Duration kLookForSeals = absl::Milliseconds(5);
// A full pool is looked at in a few seconds.
constexpr storage_node::ScrubberOptions kScrub = {
    .bytes_per_second = 512 * 1024, .step_bytes = 64 * 1024, .round_min = absl::Seconds(1)};

std::string CopierOf(const std::string& name) { return absl::StrCat(name, "/copy"); }

storage_node::RecordTable OpenTable(SimPool& pool, Incarnation new_incarnation) {
  const size_t bytes = pool.table.size() * sizeof(SimPool::Granule);
  const storage_node::TableMemory memory = {
      .bytes = {pool.table.data()->bytes, bytes}, .ready_bytes = bytes, .make_ready = [](size_t) {
        return absl::ResourceExhaustedError("the table is full");
      }};
  if (pool.has_content) {
    if (auto table = storage_node::RecordTable::Open(memory, {}); table.ok()) {
      return *std::move(table);
    }
    std::fill(pool.memory.begin(), pool.memory.end(), SimPool::Granule());
    pool.has_content =
        false;  // its header is damaged: it is no index of a pool, and another begins
  }
  auto table = storage_node::RecordTable::Create(memory, {}, new_incarnation);
  MP_CHECK(table.ok(), "no table", table.status().ToString());
  return *std::move(table);
}

}  // namespace

SimPool SimNode::LeftPool() const {
  SimPool left = pool_;
  left.has_content = true;
  return left;
}

SimNode::SimNode(SimFabric& fabric, SimMasters& masters, const NodeLabels& labels, SimPool pool,
                 Random random)
    : fabric_(fabric),
      masters_(masters),
      name_(labels.name),
      address_(absl::StrCat(name_, ":", random.Next())),
      pool_(std::move(pool)),
      journal_(OpenTable(pool_, Incarnation{random.Next() | 1})),
      index_({{.id = SegmentId{0},
               .base = pool_.memory.data()->bytes,
               .capacity_bytes = pool_.memory.size() * sizeof(SimPool::Granule)}},
             journal_, {}),
      metrics_(registry_),
      target_(journal_.incarnation(), index_, metrics_),
      transport_(NewSimTransport(fabric, name_)),
      waiter_(NewSimWaiter(fabric)),
      copy_metrics_(registry_),
      copier_({.queue = copies_,
               .index = index_,
               .transports = {transport_.get()},
               .waiter = *waiter_,
               .metrics = copy_metrics_}),
      scrub_metrics_(registry_),
      scrubber_(index_, kScrub, scrub_metrics_, Logger::Null()),
      link_metrics_(registry_),
      link_(
          {.name = name_,
           .incarnation = target_.incarnation(),
           .host_id = labels.host,
           .rack = labels.rack,
           .tcp_address = address_,
           .shm_path = ""},
          {.masters = masters.addresses()},
          {.index = index_, .copies = copies_, .metrics = link_metrics_, .logger = Logger::Null()},
          Random(random.Next())) {
  copies_.SetOnQueued([this] { WakeCopier(); });
  index_.doubted_parts().SetOnPending([this] { ScrubAt(fabric_.scheduler().Now()); });
}

void SimNode::Start() {
  if (pool_.has_content) storage_node::RestoreIndex(journal_, index_);
  fabric_.Serve(address_, name_, &target_);
  Tick();
  Scrub();
}

void SimNode::Scrub() {
  if (!crashed_) ScrubAt(scrubber_.Step(fabric_.scheduler().Now()));
}

void SimNode::ScrubAt(absl::Time time) {
  fabric_.scheduler().At(time, [this, wake = ++scrub_wake_] {
    Do([this, wake] {
      if (wake == scrub_wake_) Scrub();
    });
  });
}

std::optional<transport::SealRecord> SimNode::AnyPart(Random& random) const {
  std::vector<transport::SealRecord> parts;
  storage_node::InventorySlice slice;
  do {
    slice = index_.NextInventory(slice.next, 1000);
    std::move(slice.records.begin(), slice.records.end(), std::back_inserter(parts));
  } while (!slice.is_last);
  if (parts.empty()) return std::nullopt;
  return parts[random.Below(parts.size())];
}

void SimNode::Rot(const Extent& extent, Random& random) {
  std::byte* const memory = pool_.memory.data()->bytes;
  memory[extent.offset + random.Below(extent.length)] ^= std::byte{1} << random.Below(8);
}

void SimNode::Crash() {
  if (crashed_) return;
  crashed_ = true;
  fabric_.Stop(address_);
  Continue();  // to its end
  // The master sees the end of the stream, as the operating system would tell it.
  Close(session_);
  Close(ask_);
  copies_.EndSession();
  if (has_copier_) WakeCopier();
}

void SimNode::Pause() {
  paused_ = true;
  fabric_.Pause(address_);
  fabric_.scheduler().Freeze(CopierOf(name_));
}

void SimNode::Continue() {
  if (!std::exchange(paused_, false)) return;
  fabric_.Continue(address_);
  fabric_.scheduler().Thaw(CopierOf(name_));
  for (std::function<void()>& what : std::exchange(held_, {})) {
    // It may be paused once more before its turn comes.
    fabric_.scheduler().After(absl::ZeroDuration(), [this, what = std::move(what)] { Do(what); });
  }
}

void SimNode::Do(std::function<void()> what) {
  if (crashed_) return;
  paused_ ? held_.push_back(std::move(what)) : what();
}

void SimNode::WakeCopier() {
  Scheduler& scheduler = fabric_.scheduler();
  if (std::exchange(has_copier_, true)) {
    scheduler.Wake(copier_sleeps_);
  } else {
    scheduler.Spawn(CopierOf(name_), [this] { Copy(); });
  }
}

void SimNode::Copy() {
  while (!crashed_) {
    if (copier_.RunNext()) continue;
    copier_sleeps_ = fabric_.scheduler().NewToken();
    fabric_.scheduler().Block(copier_sleeps_, absl::InfiniteFuture());
    copier_sleeps_ = 0;
  }
}

void SimNode::WakeAt(absl::Time time) {
  const absl::Time look = fabric_.scheduler().Now() + kLookForSeals;
  fabric_.scheduler().At(std::min(time, look), [this, wake = ++wake_] {
    Do([this, wake] {
      if (wake == wake_) Tick();
    });
  });
}

void SimNode::Tick() {
  if (!crashed_) Act(link_.Tick(fabric_.scheduler().Now(), /*has_room=*/true));
}

void SimNode::Act(const storage_node::LinkOutput& output) {
  if (output.adopt) {
    Close(session_);
    session_ = std::exchange(ask_, {});
  }
  if (output.disconnect) Close(session_);
  if (output.end_ask) Close(ask_);
  if (output.connect.has_value()) Connect(*output.connect);
  if (output.ask.has_value()) Ask(*output.ask);
  for (const v1::NodeMessage& message : output.send) {
    if (session_.stream != 0) session_.master->SendOnStream(session_.stream, message);
  }
  WakeAt(output.wake_at);
}

void SimNode::Close(Line& line) {
  if (line.stream != 0) line.master->CloseStream(line.stream);
  line = {};
}

void SimNode::Open(const std::string& address, Line& line) {
  Close(line);
  const uint64_t connection = ++connections_;
  line.connection = connection;
  line.master = masters_.Find(address);
  if (line.master == nullptr) return;
  // What was asked may be the session by then.
  const auto act = [this, connection](auto in_session, auto when_asked) {
    Do([this, connection, in_session, when_asked] {
      if (session_.connection == connection)
        Act(in_session());
      else if (ask_.connection == connection)
        Act(when_asked());
    });
  };
  line.stream = line.master->OpenStream(
      name_,
      [this, act](const v1::MasterMessage& message) {
        act([this, message] { return link_.OnMessage(message, fabric_.scheduler().Now()); },
            [this, message] { return link_.OnAskMessage(message, fabric_.scheduler().Now()); });
      },
      [this, act] {
        act(
            [this] {
              session_ = {};
              return link_.OnDisconnected(absl::UnavailableError("stream ended"),
                                          fabric_.scheduler().Now());
            },
            [this] {
              ask_ = {};
              return link_.OnAskEnded(fabric_.scheduler().Now());
            });
      });
}

void SimNode::Connect(const std::string& address) {
  Open(address, session_);
  fabric_.scheduler().After(absl::Milliseconds(1), [this, connection = session_.connection,
                                                    connected = session_.stream != 0] {
    Do([this, connection, connected] {
      if (session_.connection != connection) return;
      const absl::Time now = fabric_.scheduler().Now();
      Act(connected ? link_.OnConnected(now)
                    : link_.OnDisconnected(absl::UnavailableError("no way to the master"), now));
    });
  });
}

void SimNode::Ask(const storage_node::LinkAsk& ask) {
  Open(ask.address, ask_);
  if (ask_.stream != 0) return ask_.master->SendOnStream(ask_.stream, ask.registration);
  fabric_.scheduler().After(absl::Milliseconds(1), [this, connection = ask_.connection] {
    Do([this, connection] {
      if (ask_.connection != connection) return;
      ask_ = {};
      Act(link_.OnAskEnded(fabric_.scheduler().Now()));
    });
  });
}

}  // namespace moonpool::sim
