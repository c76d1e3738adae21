// Writes to meta stores, measured, and logged where that has something to say.
#pragma once

#include <atomic>

#include "common/clock.h"
#include "common/log.h"
#include "common/metrics/metrics.h"
#include "master/meta/meta_store.h"

namespace moonpool::master {

// On any thread. One write at a time is the rule; that of a reign which has ended may overlap.
class MetaWriter {
 public:
  // All borrowed.
  MetaWriter(const Clock& clock, const Logger& logger, metrics::Registry& registry);

  // `done` is the last that is heard of the store.
  void Write(MetaStore& store, MetaBatch batch, MetaStore::WriteDone done);

 private:
  void LogOutcome(const absl::Status& status);

  const Clock& clock_;
  const Logger& logger_;
  metrics::Histogram& seconds_;
  std::atomic<bool> is_failing_ = false;  // the last one that ended
};

}  // namespace moonpool::master
