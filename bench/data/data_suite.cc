#include "bench/data/data_suite.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/limits/memory_copy.h"
#include "bench/limits/raw_sockets.h"
#include "bench/measure/stopwatch.h"
#include "common/random.h"
#include "common/status_macros.h"

namespace moonpool::bench {
namespace {

struct SizeClass {
  size_t bytes;
  const char* name;
  size_t batch;  // of the batched calls: 32, less where the buffers would be huge
};
constexpr SizeClass kSizes[] = {{size_t{4} << 10, "4k", 32},
                                {size_t{64} << 10, "64k", 32},
                                {size_t{1} << 20, "1m", 32},
                                {size_t{16} << 20, "16m", 4}};
constexpr size_t kMiBIndex = 2;
constexpr size_t kThreadCounts[] = {1, 4};
constexpr size_t kRawSockets = 2;  // as many as the client uses per node (ClientOptions)

// "shm_get_1m_1t_b32": 1 MiB objects, one thread, 32 per call.
std::string CaseName(const std::string& path, const char* operation, const char* size,
                     size_t threads, size_t batch) {
  return absl::StrCat(path, "_", operation, "_", size, "_", threads, "t_b", batch);
}

// Rate and median of one call.
Reading ReadingOf(const LatencyHistogram& calls, size_t bytes_per_call) {
  return {.rate = GigabytesPer(calls.count() * bytes_per_call, calls.total()),
          .p50_us = calls.QuantileMicros(0.5)};
}

constexpr Direction kDirections[] = {Direction::kGet, Direction::kPut};
const char* NameOf(Direction direction) { return direction == Direction::kGet ? "get" : "put"; }

absl::StatusOr<Reading> MeasureBulk(const RawSocketOptions& raw, absl::Duration time) {
  ASSIGN_OR_RETURN(const double rate, RawBulk(raw, time));
  return Reading{.rate = rate};
}

absl::StatusOr<Reading> MeasureRequests(const RawSocketOptions& raw, absl::Duration time) {
  ASSIGN_OR_RETURN(const LatencyHistogram calls, RawRequests(raw, time));
  return ReadingOf(calls, raw.size);
}

// The limit is what the faster of the congestion controls allows: the system's, and reno, which is
// always there.
absl::StatusOr<Reading> FasterControl(RawSocketOptions raw, absl::Duration time,
                                      absl::StatusOr<Reading> (*measure)(const RawSocketOptions&,
                                                                         absl::Duration)) {
  ASSIGN_OR_RETURN(const Reading systems, measure(raw, time / 2));
  raw.congestion_control = "reno";
  ASSIGN_OR_RETURN(const Reading renos, measure(raw, time / 2));
  return systems.rate > renos.rate ? systems : renos;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSuite>> DataSuite::Prepare(DataSuiteOptions options) {
  std::unique_ptr<DataSuite> suite(new DataSuite(std::move(options)));
  if (!suite->options_.with_pool) return suite;
  for (const auto& [name, path] : {std::pair("shm", Path::kShm), std::pair("tcp", Path::kTcp)}) {
    Lane lane;
    lane.name = name;
    ASSIGN_OR_RETURN(lane.reader, suite->Connect(path, true));
    ASSIGN_OR_RETURN(lane.writer, suite->Connect(path, true));
    suite->lanes_.push_back(std::move(lane));
  }
  ASSIGN_OR_RETURN(suite->unverified_, suite->Connect(Path::kTcp, false));
  RETURN_IF_ERROR(suite->StoreAndLearn());
  return suite;
}

DataSuite::~DataSuite() {
  for (const StoredObjects& objects : objects_) (void)lanes_[0].writer->Remove(objects.keys);
}

absl::StatusOr<std::unique_ptr<Client>> DataSuite::Connect(Path path, bool verify) const {
  return Client::Connect({.masters = options_.masters,
                          .name_space = options_.name_space,
                          .path = path,
                          .verify = verify,
                          .tcp_streams = kRawSockets});
}

absl::Status DataSuite::StoreAndLearn() {
  const std::string prefix = absl::StrCat("bench/", EntropySeed(), "/");
  for (const SizeClass& size : kSizes) {
    ASSIGN_OR_RETURN(StoredObjects objects,
                     StoreObjects(*lanes_[0].writer, absl::StrCat(prefix, size.name, "/"),
                                  size.bytes, ObjectCount(size.bytes)));
    objects_.push_back(std::move(objects));
    for (Lane& lane : lanes_) RETURN_IF_ERROR(Learn(*lane.reader, objects_.back()));
  }
  return Learn(*unverified_, objects_[kMiBIndex]);
}

// At least two batches of the largest.
size_t DataSuite::ObjectCount(size_t size) const {
  return std::max<size_t>(options_.read_set_bytes / size, 8);
}

uint64_t DataSuite::NeededBytes(const DataSuiteOptions& options) {
  uint64_t bytes = options.put_set_bytes;
  for (const SizeClass& size : kSizes) {
    bytes += std::max<uint64_t>(options.read_set_bytes, 8 * size.bytes);
  }
  return bytes + bytes / 2;  // part headers, and holes between sizes
}

// "memcpy_get_1m" of one buffer, "memcpy_get_1m_b32" of as many as a batch has.
void DataSuite::AddCopies(size_t size_index, std::vector<Case>* cases) const {
  const SizeClass& size = kSizes[size_index];
  for (const Direction direction : kDirections) {
    for (const size_t batch : {size_t{1}, size.batch}) {
      const MemoryCopyOptions options = {.direction = direction,
                                         .size = size.bytes,
                                         .many = PoolBuffers(direction, size.bytes),
                                         .batch = batch};
      auto copy = std::make_shared<std::unique_ptr<MemoryCopy>>();
      std::string name = absl::StrCat("memcpy_", NameOf(direction), "_", size.name);
      if (batch > 1) absl::StrAppend(&name, "_b", batch);
      cases->push_back({.name = std::move(name),
                        .measure = [options, copy](absl::Duration time) -> absl::StatusOr<Reading> {
                          if (*copy == nullptr) *copy = std::make_unique<MemoryCopy>(options);
                          return ReadingOf((*copy)->Copy(time), options.size);
                        }});
    }
  }
}

// "raw_tcp_get_1m" and "raw_tcp_get_1m_single", and what four clients at once could have,
// "raw_tcp_get_1m_4t"; "unix_pingpong" once.
void DataSuite::AddSockets(size_t size_index, std::vector<Case>* cases) const {
  const SizeClass& size = kSizes[size_index];
  for (const Direction direction : kDirections) {
    const auto raw_of = [&](size_t clients) {
      return RawSocketOptions{.direction = direction,
                              .size = size.bytes,
                              .many = PoolBuffers(direction, size.bytes),
                              .batch = clients * size.batch,
                              .sockets = clients * kRawSockets};
    };
    const auto add = [cases](std::string name, const RawSocketOptions& raw, auto measure) {
      cases->push_back({.name = std::move(name), .measure = [raw, measure](absl::Duration time) {
                          return FasterControl(raw, time, measure);
                        }});
    };
    const std::string name = absl::StrCat("raw_tcp_", NameOf(direction), "_", size.name);
    add(name, raw_of(1), MeasureBulk);
    add(absl::StrCat(name, "_single"), raw_of(1), MeasureRequests);
    if (size_index == kMiBIndex) add(absl::StrCat(name, "_4t"), raw_of(4), MeasureBulk);
  }
  if (size_index > 0) return;
  const RawSocketOptions pingpong = {.size = 64, .socket = RawSocket::kUnix};
  cases->push_back({.name = "unix_pingpong", .measure = [pingpong](absl::Duration time) {
                      return MeasureRequests(pingpong, time);
                    }});
}

size_t DataSuite::PoolBuffers(Direction direction, size_t size) const {
  const uint64_t bytes =
      direction == Direction::kGet ? options_.read_set_bytes : options_.put_set_bytes;
  return std::max<size_t>(bytes / size, 8);
}

void DataSuite::AddPoolCases(size_t size_index, std::vector<Case>* cases) {
  const SizeClass& size = kSizes[size_index];
  for (Lane& lane : lanes_) {
    for (const size_t threads : kThreadCounts) {
      for (const size_t batch : {size_t{1}, size.batch}) {
        const TrafficShape shape = {
            .size = size.bytes, .threads = threads, .batch = batch, .servers = options_.servers};
        cases->push_back({.name = CaseName(lane.name, "get", size.name, threads, batch),
                          .measure = [this, &lane, shape, size_index](absl::Duration time) {
                            return MeasureGets(*lane.reader, objects_[size_index], shape, time);
                          }});
        cases->push_back({.name = CaseName(lane.name, "put", size.name, threads, batch),
                          .measure = [this, &lane, shape](absl::Duration time) {
                            return MeasurePuts(*lane.writer, "bench-put/", options_.put_set_bytes,
                                               shape, time);
                          }});
      }
    }
  }
}

void DataSuite::AddSpecialCases(std::vector<Case>* cases) {
  const SizeClass& size = kSizes[kMiBIndex];
  const TrafficShape shape = {.size = size.bytes, .threads = 1, .batch = size.batch};
  cases->push_back(
      {.name = "tcp_get_1m_1t_b32_unverified", .measure = [this, shape](absl::Duration time) {
         return MeasureGets(*unverified_, objects_[kMiBIndex], shape, time);
       }});
  cases->push_back({.name = "shm_view_1m", .measure = [this](absl::Duration time) {
                      return MeasureViews(*lanes_[0].reader, objects_[kMiBIndex], time);
                    }});
}

std::vector<Case> DataSuite::Cases() {
  std::vector<Case> cases;
  for (size_t i = 0; i < std::size(kSizes); ++i) {
    AddCopies(i, &cases);
    AddSockets(i, &cases);
    if (options_.with_pool) AddPoolCases(i, &cases);
    if (options_.with_pool && i == kMiBIndex) AddSpecialCases(&cases);
  }
  return cases;
}

}  // namespace moonpool::bench
