// A file of a pool's folder that is mapped as large as it may ever become, and gets its memory as
// it grows. Every byte that may be touched has memory: a full file system is an error when the file
// grows, never a signal later.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"
#include "storage_node/memory/pool_directory.h"

namespace moonpool::storage_node {

// Move-only; the address stays the same. Not thread-safe.
class GrowingFile {
 public:
  // RESOURCE_EXHAUSTED when there is no address space for `bytes_max`, or no memory for what the
  // file has.
  static absl::StatusOr<GrowingFile> Create(const PoolDirectory& directory, const std::string& name,
                                            size_t bytes_max);
  // NOT_FOUND: there is none. One that is larger than `bytes_max` keeps its size.
  static absl::StatusOr<GrowingFile> Open(const PoolDirectory& directory, const std::string& name,
                                          size_t bytes_max);

  GrowingFile(GrowingFile&& other) noexcept { *this = std::move(other); }
  GrowingFile& operator=(GrowingFile&& other) noexcept;
  ~GrowingFile();

  absl::Span<std::byte> bytes() const { return {base_, bytes_max_}; }
  size_t ready_bytes() const { return ready_bytes_; }
  // At least so many, of `bytes_max` at most. Returns how many. The new ones are zero.
  absl::StatusOr<size_t> MakeReady(size_t bytes);

 private:
  GrowingFile() = default;
  static absl::StatusOr<GrowingFile> Map(const PoolDirectory& directory, UniqueFd file,
                                         size_t bytes_max);

  UniqueFd file_;
  std::byte* base_ = nullptr;
  size_t bytes_max_ = 0;  // whole pages
  size_t ready_bytes_ = 0;
  size_t step_bytes_ = 0;
};

}  // namespace moonpool::storage_node
