// Where seals are written down so that they survive the process. Today nothing does: the seam for
// warm restart.
#pragma once

#include "absl/status/status.h"
#include "common/types.h"
#include "transport/ops.h"

namespace moonpool::storage_node {

// Called under the lock of the segment concerned, so that the order of the entries is the order of
// what happened to the bytes. Must not call back, and waits for nothing slower than memory.
// Thread-safe: segments have locks of their own.
class SealJournal {
 public:
  virtual ~SealJournal() = default;
  // An error refuses the seal.
  virtual absl::Status Append(const transport::SealRecord& record) = 0;
  // The generation was freed on purpose and must not come back. An error is told to whoever asked
  // for the free; the record is gone from memory all the same.
  virtual absl::Status AppendFree(Generation generation) = 0;
};

// Forgets everything: the index lives and dies with the process.
class NullJournal final : public SealJournal {
 public:
  absl::Status Append(const transport::SealRecord&) override { return absl::OkStatus(); }
  absl::Status AppendFree(Generation) override { return absl::OkStatus(); }
};

}  // namespace moonpool::storage_node
