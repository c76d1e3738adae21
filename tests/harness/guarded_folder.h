// A folder that is gone with this process, however it ends, SIGKILL included.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace moonpool::harness {

// Made before any thread: a small process of its own waits for the end of this one, and removes
// what is left.
class GuardedFolder {
 public:
  // A new folder in `parent`, its name begins with `prefix`.
  static absl::StatusOr<std::unique_ptr<GuardedFolder>> Create(const std::string& parent,
                                                               const std::string& prefix);
  ~GuardedFolder();  // removes it
  GuardedFolder(const GuardedFolder&) = delete;
  GuardedFolder& operator=(const GuardedFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit GuardedFolder(std::string path) : path_(std::move(path)) {}
  absl::Status StartGuard();

  const std::string path_;
  UniqueFd life_;  // its other end is closed with it
  int guard_ = -1;
};

}  // namespace moonpool::harness
