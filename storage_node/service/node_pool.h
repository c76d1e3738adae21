// The pool of a node: its memory, the journal of what is sealed there, and the index over both. New
// with the process, or taken over from the last one.
//
//   ASSIGN_OR_RETURN(auto pool, NodePool::Open(options, clock, logger));
//   pool->index(), pool->incarnation(), pool->memory()
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
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
#include "transport/shm/orphan_pins.h"

namespace moonpool::storage_node {

struct NodePoolOptions {
  SegmentMemoryOptions memory;
  uint64_t parts_max = uint64_t{1} << 25;
  std::string dir;  // of files that outlive the process; empty: nothing does
  // Of the pages in which clients of this host pin what they view; always on tmpfs. Empty: in dir,
  // which is then to be on tmpfs itself. What counts is the folder, however it is spelt.
  std::string pins_dir;
  absl::Duration lock_wait = absl::Seconds(10);
  std::string boot_id_path = "/proc/sys/kernel/random/boot_id";
};

// Thread-safe once it is open, ReleaseEnded aside. Holds the folder's lock for its life; its end
// changes no file.
class NodePool {
 public:
  // What is in the folder and fits is taken over; what does not is replaced, and the log says why.
  // Blocks until all memory is there, as SegmentMemory and PoolDirectory do, with their errors.
  static absl::StatusOr<std::unique_ptr<NodePool>> Open(NodePoolOptions options, const Clock& clock,
                                                        Logger& logger);
  ~NodePool();
  NodePool(const NodePool&) = delete;
  NodePool& operator=(const NodePool&) = delete;

  ExtentIndex& index() { return *index_; }
  const SegmentMemory& memory() const { return *memory_; }
  Incarnation incarnation() const { return incarnation_; }
  // For the shared-memory server; empty: pins end with the process, as all else does.
  const std::string& pins_dir() const { return pins_dir_; }

  // Lets go of the bytes of clients of earlier lives that have ended since. One thread; does not
  // block. Returns how many are left.
  size_t ReleaseEnded();

 private:
  explicit NodePool(NodePoolOptions options) : options_(std::move(options)) {}
  absl::Status MakeVolatile(const Clock& clock, Logger& logger);
  absl::Status FindPinsFolder();
  // FAILED_PRECONDITION or NOT_FOUND: there is nothing that fits.
  absl::StatusOr<RestoreReport> TakeOver();
  void LogKept(const RestoreReport& report, absl::Duration took, Logger& logger) const;
  absl::Status MakeNew(const Clock& clock, Logger& logger);
  absl::Status MakeFiles(const Clock& clock, Logger& logger);
  // Clients of earlier lives that are still there keep what they use.
  absl::Status AdoptClients(const absl::flat_hash_set<Generation>& taken);
  TableIdentity Identity() const;
  TableMemory MemoryOfTable();
  void MakeIndex(SealJournal& journal);

  const NodePoolOptions options_;
  Incarnation incarnation_;
  std::string pins_dir_;
  std::string pins_folder_;  // which one that is; empty: the one in dir

  // In the order of their making; each uses those above it.
  std::optional<PoolDirectory> directory_;
  std::optional<SegmentMemory> memory_;
  std::optional<GrowingFile> table_file_;
  NullJournal no_journal_;
  std::optional<TableJournal> journal_;
  std::unique_ptr<ExtentIndex> index_;
  std::vector<std::unique_ptr<transport::OrphanPins>> orphans_;
};

}  // namespace moonpool::storage_node
