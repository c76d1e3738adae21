// Writes to the meta store, measured, and logged where that has something to say.
#pragma once

#include "common/clock.h"
#include "common/log.h"
#include "common/metrics/metrics.h"
#include "master/meta/meta_store.h"

namespace moonpool::master {

// One write at a time, on any thread.
class MetaWriter {
 public:
  // All borrowed.
  MetaWriter(MetaStore& store, const Clock& clock, const Logger& logger,
             metrics::Registry& registry);

  void Write(MetaBatch batch, MetaStore::WriteDone done);

 private:
  void LogOutcome(const absl::Status& status);

  MetaStore& store_;
  const Clock& clock_;
  const Logger& logger_;
  metrics::Histogram& seconds_;
  bool is_failing_ = false;  // the last one that ended
};

}  // namespace moonpool::master
