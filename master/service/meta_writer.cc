#include "master/service/meta_writer.h"

#include <utility>

#include "common/error.h"

namespace moonpool::master {

MetaWriter::MetaWriter(const Clock& clock, const Logger& logger, metrics::Registry& registry)
    : clock_(clock),
      logger_(logger),
      seconds_(registry.AddHistogram("moonpool_master_meta_write_seconds",
                                     "From a write to the meta store to its word.",
                                     metrics::LatencyBuckets())) {}

void MetaWriter::Write(MetaStore& store, MetaBatch batch, MetaStore::WriteDone done) {
  const absl::Time begun = clock_.Now();
  store.Write(std::move(batch), [this, begun, done = std::move(done)](absl::Status status) mutable {
    seconds_.Observe(clock_.Now() - begun);
    LogOutcome(status);
    std::move(done)(std::move(status));
  });
}

void MetaWriter::LogOutcome(const absl::Status& status) {
  const bool is_failing = !status.ok();
  if (is_failing_.exchange(is_failing) == is_failing) return;
  if (is_failing) {
    logger_.Error("durable state cannot be written; what needs it is refused",
                  {{"reason", Describe(status)}});
  } else {
    logger_.Info("durable state is written again");
  }
}

}  // namespace moonpool::master
