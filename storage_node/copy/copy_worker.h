// Carries out what the master has ordered to be copied here, one part after the other.
#pragma once

#include <utility>
#include <vector>

#include "storage_node/copy/copy_metrics.h"
#include "storage_node/copy/copy_queue.h"
#include "storage_node/copy/source_channels.h"
#include "storage_node/pool/extent_index.h"
#include "transport/channel.h"
#include "transport/waiter.h"

namespace moonpool::storage_node {

// Used by one thread at a time: a `copy-N`, or an actor of the simulator. Several share a queue.
class CopyWorker {
 public:
  struct Dependencies {  // borrowed
    CopyQueue& queue;
    ExtentIndex& index;
    std::vector<transport::Transport*> transports;  // tried in this order
    transport::Waiter& waiter;
    CopyMetrics& metrics;
  };
  explicit CopyWorker(Dependencies dependencies)
      : queue_(dependencies.queue),
        index_(dependencies.index),
        waiter_(dependencies.waiter),
        metrics_(dependencies.metrics),
        sources_(std::move(dependencies.transports)) {}

  // Blocks until the next part is there, or is not to be had. False: none was ordered.
  bool RunNext();

 private:
  CopyQueue& queue_;
  ExtentIndex& index_;
  transport::Waiter& waiter_;
  CopyMetrics& metrics_;
  SourceChannels sources_;
};

}  // namespace moonpool::storage_node
