#include "storage_node/copy/copy_worker.h"

#include <optional>

#include "storage_node/copy/copy_part.h"

namespace moonpool::storage_node {

bool CopyWorker::RunNext() {
  const std::optional<CopyJob> job = queue_.Take();
  if (!job.has_value()) return false;
  const absl::Time begin = waiter_.clock().Now();
  const absl::StatusOr<uint64_t> copied =
      CopyPart(job->order, index_, sources_, waiter_, job->context);
  metrics_.seconds.Observe(waiter_.clock().Now() - begin);
  metrics_.CountResult(copied.status());
  if (copied.ok()) metrics_.bytes.Increment(*copied);
  queue_.Finish(job->id, copied.status());
  return true;
}

}  // namespace moonpool::storage_node
