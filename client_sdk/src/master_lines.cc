#include "client_sdk/src/master_lines.h"

#include <algorithm>

#include "client_sdk/src/master_channel.h"

namespace moonpool::client {

struct MasterLines::Line {
  explicit Line(const std::shared_ptr<grpc::Channel>& channel)
      : stub(v1::MasterService::NewStub(channel)), places(channel) {}

  const std::unique_ptr<v1::MasterService::Stub> stub;
  PlaceCalls places;
  int calls = 0;  // under way; guarded by the mutex of the lines
};

MasterLines::MasterLines(std::string address) : address_(std::move(address)) {}

MasterLines::~MasterLines() = default;

// The first that is free: a client that calls now and then stays on one connection.
MasterLines::Line& MasterLines::LeastBusy() {
  const auto least =
      std::min_element(lines_.begin(), lines_.end(),
                       [](const auto& a, const auto& b) { return a->calls < b->calls; });
  const bool is_free = least != lines_.end() && (*least)->calls == 0;
  if (is_free || lines_.size() == kLinesMax) return **least;
  lines_.push_back(std::make_unique<Line>(ConnectToMaster(address_)));
  return *lines_.back();
}

MasterLines::Lease MasterLines::Take() {
  absl::MutexLock lock(&mutex_);
  Line& line = LeastBusy();
  ++line.calls;
  return Lease(*this, line);
}

size_t MasterLines::size() const {
  absl::MutexLock lock(&mutex_);
  return lines_.size();
}

MasterLines::Lease::~Lease() {
  if (line_ == nullptr) return;
  absl::MutexLock lock(&lines_.mutex_);
  --line_->calls;
}

v1::MasterService::Stub& MasterLines::Lease::stub() const { return *line_->stub; }
PlaceCalls& MasterLines::Lease::places() const { return line_->places; }

}  // namespace moonpool::client
