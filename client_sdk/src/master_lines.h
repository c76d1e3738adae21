// The connections to one master. gRPC has one thread at a time read a connection: it wakes the
// thread that an answer is for, and has to be relieved itself. So calls that are under way at the
// same time have a connection each, as far as there are any.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/grpc/place_calls.h"
#include "moonpool/v1/master.grpc.pb.h"

namespace moonpool::client {

// Thread-safe.
class MasterLines {
 public:
  // Who calls once at a time has one; who has more threads than this lets them share.
  static constexpr size_t kLinesMax = 4;

  explicit MasterLines(std::string address);
  ~MasterLines();

  const std::string& address() const { return address_; }

  // A connection for one call, until this goes. Borrows the lines. Move-only.
  class Lease;
  Lease Take();
  size_t size() const;

 private:
  struct Line;

  Line& LeastBusy() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string address_;
  mutable absl::Mutex mutex_;
  std::vector<std::unique_ptr<Line>> lines_ ABSL_GUARDED_BY(mutex_);
};

class MasterLines::Lease {
 public:
  Lease(Lease&& other) noexcept
      : lines_(other.lines_), line_(std::exchange(other.line_, nullptr)) {}
  Lease& operator=(Lease&&) = delete;
  ~Lease();

  v1::MasterService::Stub& stub() const;
  PlaceCalls& places() const;

 private:
  friend class MasterLines;
  Lease(MasterLines& lines, Line& line) : lines_(lines), line_(&line) {}

  MasterLines& lines_;
  Line* line_;
};

}  // namespace moonpool::client
