// The memory of a DRAM segment: one shared mapping with a descriptor that can be handed to other
// processes, huge pages where there are any, every page touched before it is used.
//
//   ASSIGN_OR_RETURN(SegmentMemory memory,
//                    SegmentMemory::Allocate({.capacity_bytes = bytes}, clock, logger));
//   memory.base(), memory.capacity_bytes(), memory.fd()
//
// It goes with the process, or lies in a folder from which the next process takes it over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/unique_fd.h"
#include "storage_node/memory/pool_directory.h"

namespace moonpool::storage_node {

enum class HugePages {
  kAuto,  // reserved ones (vm.nr_hugepages) if enough are free, else the kernel's transparent ones
  kOn,    // reserved ones, or an error
  kOff,   // neither
};

struct SegmentMemoryOptions {
  uint64_t capacity_bytes = 0;
  HugePages huge_pages = HugePages::kAuto;
  int prefault_threads = 0;  // 0 = one per processor, at most 8
  int numa_node = -1;        // -1 = wherever the kernel likes
  // Asked now and then while pages are touched, which takes minutes for a terabyte.
  std::function<bool()> should_stop = [] { return false; };
};

// Owns the mapping and its descriptor. Move-only; the address stays the same. The memory is
// aligned to 4096 at least and zero at first.
class SegmentMemory {
 public:
  // Blocks until all pages are there. INVALID_ARGUMENT: more than the machine has, or impossible
  // options. RESOURCE_EXHAUSTED: the kernel gave less. CANCELLED: should_stop. The message names
  // the call, the error and the size, the hint what to do.
  static absl::StatusOr<SegmentMemory> Allocate(const SegmentMemoryOptions& options,
                                                const Clock& clock, Logger& logger);

  // The same, as a file that outlives the process; its pages are those of the folder. Errors are
  // those of Allocate and of the folder. RESOURCE_EXHAUSTED: the file system is too small.
  static absl::StatusOr<SegmentMemory> CreateFile(const PoolDirectory& directory,
                                                  const std::string& name,
                                                  const SegmentMemoryOptions& options,
                                                  const Clock& clock, Logger& logger);
  // What CreateFile has made, with its content; no page is touched. NOT_FOUND: there is none.
  // FAILED_PRECONDITION: it has another size, or lacks memory.
  static absl::StatusOr<SegmentMemory> OpenFile(const PoolDirectory& directory,
                                                const std::string& name,
                                                const SegmentMemoryOptions& options);

  SegmentMemory(SegmentMemory&& other) noexcept { *this = std::move(other); }
  SegmentMemory& operator=(SegmentMemory&& other) noexcept;
  ~SegmentMemory();

  std::byte* base() const { return base_; }
  uint64_t capacity_bytes() const { return capacity_bytes_; }  // exactly as asked for
  uint64_t mapped_bytes() const { return mapped_bytes_; }      // rounded up to pages
  uint64_t page_bytes() const { return page_bytes_; }
  int fd() const { return fd_.get(); }

 private:
  SegmentMemory() = default;
  static absl::StatusOr<SegmentMemory> Memfd(uint64_t capacity_bytes, uint64_t page_bytes,
                                             unsigned flags);
  static absl::StatusOr<SegmentMemory> Map(UniqueFd file, uint64_t capacity_bytes,
                                           uint64_t page_bytes, const char* hint);

  std::byte* base_ = nullptr;
  uint64_t capacity_bytes_ = 0;
  uint64_t mapped_bytes_ = 0;
  uint64_t page_bytes_ = 0;
  UniqueFd fd_;
};

}  // namespace moonpool::storage_node
