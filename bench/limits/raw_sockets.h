// What sockets within this host allow: they move the bytes of gets and puts and do nothing else.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/limits/memory_copy.h"
#include "bench/measure/latency.h"

namespace moonpool::bench {

enum class RawSocket { kTcp, kUnix };

struct RawSocketOptions {
  Direction direction = Direction::kGet;
  size_t size = 0;     // bytes of one message
  size_t many = 1;     // buffers of the peer's side, as objects in the pool
  size_t batch = 1;    // buffers of the other side, bulk only: as many as a batch has
  size_t sockets = 1;  // bulk only
  RawSocket socket = RawSocket::kTcp;
  std::string congestion_control = {};  // of TCP; empty: the system's
};

// Messages without pause on every socket at once, a thread at each end of each: GB/s.
absl::StatusOr<double> RawBulk(const RawSocketOptions& options, absl::Duration time);

// One message at a time: a small request and the bytes back (get), or the bytes and a small answer
// (put).
absl::StatusOr<LatencyHistogram> RawRequests(const RawSocketOptions& options, absl::Duration time);

}  // namespace moonpool::bench
