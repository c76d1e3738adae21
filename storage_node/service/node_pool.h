// The pool of a node: its memory, the journal of what is sealed there, and the index over both. New
// with the process, or taken over from the last one.
//
//   ASSIGN_OR_RETURN(auto pool, NodePool::Open(options, clock, logger));
//   pool->index(), pool->incarnation(), pool->memory()
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/types.h"
#include "storage_node/journal/table_journal.h"
#include "storage_node/memory/growing_file.h"
#include "storage_node/memory/pool_directory.h"
#include "storage_node/memory/segment_memory.h"
#include "storage_node/pool/extent_index.h"
#include "storage_node/pool/seal_journal.h"

namespace moonpool::storage_node {

struct NodePoolOptions {
  SegmentMemoryOptions memory;
  uint64_t parts_max = uint64_t{1} << 25;
  std::string dir;  // of files that outlive the process; empty: nothing does
  absl::Duration lock_wait = absl::Seconds(10);
  std::string boot_id_path = "/proc/sys/kernel/random/boot_id";
};

// Thread-safe once it is open. Holds the folder's lock for its life; its end changes no file.
class NodePool {
 public:
  // What is in the folder and fits is taken over; what does not is replaced, and the log says why.
  // Blocks until all memory is there, as SegmentMemory and PoolDirectory do, with their errors.
  static absl::StatusOr<std::unique_ptr<NodePool>> Open(NodePoolOptions options, const Clock& clock,
                                                        Logger& logger);
  NodePool(const NodePool&) = delete;
  NodePool& operator=(const NodePool&) = delete;

  ExtentIndex& index() { return *index_; }
  const SegmentMemory& memory() const { return *memory_; }
  Incarnation incarnation() const { return incarnation_; }

 private:
  explicit NodePool(NodePoolOptions options) : options_(std::move(options)) {}
  absl::Status MakeVolatile(const Clock& clock, Logger& logger);
  // FAILED_PRECONDITION or NOT_FOUND: there is nothing that fits.
  absl::Status TakeOver(const Clock& clock, Logger& logger);
  absl::Status MakeNew(const Clock& clock, Logger& logger);
  TableIdentity Identity() const;
  TableMemory MemoryOfTable();
  void MakeIndex(SealJournal& journal);

  const NodePoolOptions options_;
  Incarnation incarnation_;

  // In the order of their making; each uses those above it.
  std::optional<PoolDirectory> directory_;
  std::optional<SegmentMemory> memory_;
  std::optional<GrowingFile> table_file_;
  NullJournal no_journal_;
  std::optional<TableJournal> journal_;
  std::unique_ptr<ExtentIndex> index_;
};

}  // namespace moonpool::storage_node
