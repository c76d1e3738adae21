// The folder of a pool whose memory outlives the process: files on tmpfs or hugetlbfs, and a lock
// that lets one process have them.
//
//   ASSIGN_OR_RETURN(PoolDirectory directory, PoolDirectory::Open({.path = path}, clock));
//   ASSIGN_OR_RETURN(UniqueFd file, directory.OpenFile("pool"));   // NOT_FOUND: there is none
//
// Nothing is written with write(), which hugetlbfs does not have: files are mapped.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/unique_fd.h"

namespace moonpool::storage_node {

struct PoolDirectoryOptions {
  std::string path;
  // The lock of a process that was killed is free once its memory is unmapped.
  absl::Duration lock_wait = absl::Seconds(10);
  std::function<bool()> should_stop = [] { return false; };
};

// Movable. The folder is ours for its life.
class PoolDirectory {
 public:
  // Makes the folder when it is not there (not its parents). INVALID_ARGUMENT: a place that is not
  // in memory. FAILED_PRECONDITION: not a folder of this user alone, or another process, which is
  // named, had it for `lock_wait`. CANCELLED: should_stop.
  static absl::StatusOr<PoolDirectory> Open(const PoolDirectoryOptions& options,
                                            const Clock& clock);

  const std::string& path() const { return path_; }
  uint64_t page_bytes() const { return page_bytes_; }  // of its files
  bool has_huge_pages() const { return has_huge_pages_; }

  // For reading and writing. NOT_FOUND; FAILED_PRECONDITION when it is no file of this user alone.
  absl::StatusOr<UniqueFd> OpenFile(const std::string& name) const;
  // A new one, empty. One of that name keeps its bytes for those that have it mapped, and is gone
  // otherwise: to shorten it would kill them.
  absl::StatusOr<UniqueFd> NewFile(const std::string& name) const;
  absl::Status Remove(const std::string& name) const;

 private:
  PoolDirectory() = default;
  absl::Status CheckPlace();
  absl::Status Lock(const PoolDirectoryOptions& options, const Clock& clock);

  std::string path_;
  uint64_t page_bytes_ = 0;
  bool has_huge_pages_ = false;
  UniqueFd folder_;
  UniqueFd lock_;
};

// Whether bytes [from, to) of a file can have memory: RESOURCE_EXHAUSTED, with `hint`, when there
// is not enough. To find it out by filling the file system up would first take it from everybody
// else.
absl::Status CheckRoom(int fd, uint64_t from, uint64_t to, const std::string& hint);

// Gives them memory, and the file at least that size. RESOURCE_EXHAUSTED as above.
absl::Status AllocateFile(int fd, uint64_t from, uint64_t to, const std::string& hint);

}  // namespace moonpool::storage_node
