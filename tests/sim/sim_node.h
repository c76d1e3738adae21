// A storage node in the simulated cluster: the real pool, target and master link, on plain memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/metrics/metrics.h"
#include "common/random.h"
#include "storage_node/copy/copy_metrics.h"
#include "storage_node/copy/copy_queue.h"
#include "storage_node/copy/copy_worker.h"
#include "storage_node/journal/table_journal.h"
#include "storage_node/link/master_link.h"
#include "storage_node/pool/extent_index.h"
#include "storage_node/scrub/scrub_metrics.h"
#include "storage_node/scrub/scrubber.h"
#include "storage_node/serve/node_target.h"
#include "tests/sim/options.h"
#include "tests/sim/sim_masters.h"
#include "tests/sim/sim_pool.h"
#include "transport/sim/sim_transport.h"

namespace moonpool::sim {

// One process. Objects that died are kept until the end of the run: events may hold claims.
class SimNode {
 public:
  SimNode(SimFabric& fabric, SimMasters& masters, const NodeLabels& labels, SimPool pool,
          Random random);

  void Start();
  // The process dies. What it had is gone with it, unless somebody takes its pool as it is now:
  // what is still done to this object is not seen there. Its actor ends by itself.
  void Crash();
  SimPool LeftPool() const;
  bool crashed() const { return crashed_; }
  // The process is stopped: what happens to it happens later, in its order; its clock goes on.
  void Pause();
  void Continue();
  bool paused() const { return paused_; }
  // Some sealed part, if there is one.
  std::optional<transport::SealRecord> AnyPart(Random& random) const;
  // Turns a bit of it over, in the header or in the payload, behind everybody's back.
  void Rot(const Extent& extent, Random& random);
  const std::string& name() const { return name_; }
  const storage_node::ExtentIndex& index() const { return index_; }
  const storage_node::CopyMetrics& copy_metrics() const { return copy_metrics_; }
  const storage_node::ScrubMetrics& scrub_metrics() const { return scrub_metrics_; }
  Incarnation incarnation() const { return target_.incarnation(); }
  // Records that it found when it took its pool over, and that were not whole.
  uint64_t damaged_records() const { return journal_.damaged(); }

 private:
  // A stream to a master, from the attempt to connect on.
  struct Line {
    SimMaster* master = nullptr;
    uint64_t stream = 0;      // 0: not connected
    uint64_t connection = 0;  // 0: none; events of another one are void
  };

  // Runs it now, when the process is no longer paused, or never.
  void Do(std::function<void()> what);
  void Act(const storage_node::LinkOutput& output);
  void Connect(const std::string& address);
  void Ask(const storage_node::LinkAsk& ask);
  // At an address of no master there is nobody.
  void Open(const std::string& address, Line& line);
  static void Close(Line& line);
  void Tick();
  // Ticks at `time`, unless something ticks before.
  void WakeAt(absl::Time time);
  void Scrub();
  // Scrubs at `time`, unless it does before.
  void ScrubAt(absl::Time time);
  // Wakes the actor that copies; the first order starts it.
  void WakeCopier();
  void Copy();

  SimFabric& fabric_;
  SimMasters& masters_;
  const std::string name_;
  const std::string address_;
  SimPool pool_;
  storage_node::TableJournal journal_;
  storage_node::ExtentIndex index_;
  metrics::Registry registry_;
  storage_node::ServeMetrics metrics_;
  storage_node::NodeTarget target_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<transport::Waiter> waiter_;
  storage_node::CopyQueue copies_;
  storage_node::CopyMetrics copy_metrics_;
  storage_node::CopyWorker copier_;
  storage_node::ScrubMetrics scrub_metrics_;
  storage_node::Scrubber scrubber_;
  storage_node::LinkMetrics link_metrics_;
  storage_node::MasterLink link_;
  Line session_;
  Line ask_;
  uint64_t connections_ = 0;
  uint64_t wake_ = 0;        // counts wake-ups: only the newest is due
  uint64_t scrub_wake_ = 0;  // likewise
  bool has_copier_ = false;
  uint64_t copier_sleeps_ = 0;  // its token; 0: it is at work
  bool crashed_ = false;
  bool paused_ = false;
  std::vector<std::function<void()>> held_;
};

}  // namespace moonpool::sim
