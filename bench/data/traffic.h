// Gets and puts against a pool for a short time, from one or more threads: the bytes per second and
// the latency of the calls.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/suite/rounds.h"
#include "moonpool/client.h"

namespace moonpool::bench {

struct TrafficShape {
  size_t size = 0;     // bytes of an object
  size_t threads = 1;  // all on one client
  size_t batch = 1;    // objects per call; 1 = the single-object call
  // Of gets: the processes that serve, whose processor time is counted with this one's.
  std::vector<pid_t> servers = {};
};

// Objects that stay, to read in turn: so many that they do not fit the caches together.
struct StoredObjects {
  std::vector<std::string> keys;
  size_t size = 0;
};
absl::StatusOr<StoredObjects> StoreObjects(Client& client, const std::string& prefix, size_t size,
                                           size_t count);

// Reads all of them once, so that the client knows where they are.
absl::Status Learn(Client& client, const StoredObjects& objects);

absl::StatusOr<Reading> MeasureGets(Client& client, const StoredObjects& objects,
                                    const TrafficShape& shape, absl::Duration time);

// Fresh keys under `prefix`; they are removed again, between the measured stretches.
// At most `most_bytes` are stored at a time.
absl::StatusOr<Reading> MeasurePuts(Client& client, const std::string& prefix, uint64_t most_bytes,
                                    const TrafficShape& shape, absl::Duration time);

// Opens a view of each object in turn and releases it.
absl::StatusOr<Reading> MeasureViews(Client& client, const StoredObjects& objects,
                                     absl::Duration time);

}  // namespace moonpool::bench
