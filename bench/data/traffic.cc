#include "bench/data/traffic.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "bench/measure/cpu_meter.h"
#include "bench/measure/latency.h"
#include "bench/measure/stopwatch.h"
#include "common/random.h"
#include "common/status_macros.h"
#include "common/types.h"

namespace moonpool::bench {
namespace {

constexpr size_t kFillBatch = 64;
constexpr size_t kLearnBytes = 64 << 20;

// What one thread did.
struct Lane {
  uint64_t bytes = 0;
  LatencyHistogram calls;
  absl::Status status;
};

struct Buffers {
  Buffers(size_t size, size_t count) : size_bytes(size), bytes(new std::byte[size * count]) {
    Random random(size + count);
    for (size_t i = 0; i + sizeof(uint64_t) <= size * count; i += sizeof(uint64_t)) {
      const uint64_t word = random.Next();
      std::memcpy(bytes.get() + i, &word, sizeof(word));
    }
  }
  MutableBuffer at(size_t index) { return {bytes.get() + index * size_bytes, size_bytes}; }

  const size_t size_bytes;
  const std::unique_ptr<std::byte[]> bytes;
};

// Runs `work(lane index, lane)` on that many threads, which start together; returns the time from
// the start to the end of the last.
absl::Duration RunLanes(std::vector<Lane>& lanes, const std::function<void(size_t, Lane&)>& work) {
  if (lanes.size() == 1) {
    const Stopwatch watch;
    work(0, lanes[0]);
    return watch.elapsed();
  }
  std::barrier start(static_cast<ptrdiff_t>(lanes.size()) + 1);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < lanes.size(); ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      work(i, lanes[i]);
    });
  }
  start.arrive_and_wait();
  const Stopwatch watch;
  for (std::thread& thread : threads) thread.join();
  return watch.elapsed();
}

absl::StatusOr<Reading> Sum(const std::vector<Lane>& lanes, absl::Duration elapsed) {
  uint64_t bytes = 0;
  LatencyHistogram calls;
  for (const Lane& lane : lanes) {
    RETURN_IF_ERROR(lane.status);
    bytes += lane.bytes;
    calls.Merge(lane.calls);
  }
  return Reading{.rate = GigabytesPer(bytes, elapsed), .p50_us = calls.QuantileMicros(0.5)};
}

// One call that reads `items`; the single-object call for one.
absl::Status GetOnce(Client& client, absl::Span<const GetItem> items) {
  if (items.size() == 1) return client.Get(items[0].key, items[0].into[0]).status();
  for (const absl::StatusOr<size_t>& result : client.GetMany(items)) {
    RETURN_IF_ERROR(result.status());
  }
  return absl::OkStatus();
}

absl::Status PutOnce(Client& client, absl::Span<const PutItem> items) {
  if (items.size() == 1) return client.Put(items[0].key, items[0].value[0]);
  for (const absl::Status& result : client.PutMany(items)) RETURN_IF_ERROR(result);
  return absl::OkStatus();
}

absl::Status RemoveAll(Client& client, const std::vector<std::string>& keys) {
  for (size_t first = 0; first < keys.size(); first += kMaxBatchKeys) {
    const auto some = absl::MakeConstSpan(keys).subspan(first, kMaxBatchKeys);
    for (const absl::Status& result : client.Remove(some)) RETURN_IF_ERROR(result);
  }
  return absl::OkStatus();
}

// The puts of one thread between two removals.
class PutLane {
 public:
  PutLane(Client& client, std::string prefix, const TrafficShape& shape)
      : client_(client),
        prefix_(std::move(prefix)),
        shape_(shape),
        buffers_(shape.size, shape.batch) {
    for (size_t i = 0; i < shape.batch; ++i) {
      items_.push_back({.key = "", .value = {buffers_.at(i)}, .parent = ""});
    }
  }

  void Run(uint64_t most_bytes, absl::Duration time, Lane& lane) {
    const Stopwatch watch;
    uint64_t stored = 0;
    do {
      for (PutItem& item : items_) {
        item.key = absl::StrCat(prefix_, next_++);
        keys_.push_back(item.key);
      }
      const Stopwatch call;
      lane.status = PutOnce(client_, items_);
      lane.calls.Add(call.elapsed());
      if (!lane.status.ok()) return;
      stored += shape_.size * shape_.batch;
    } while (watch.elapsed() < time && stored + shape_.size * shape_.batch <= most_bytes);
    lane.bytes += stored;
  }

  absl::Status Clear() {
    RETURN_IF_ERROR(RemoveAll(client_, keys_));
    keys_.clear();
    return absl::OkStatus();
  }

 private:
  Client& client_;
  const std::string prefix_;
  const TrafficShape shape_;
  Buffers buffers_;
  std::vector<PutItem> items_;
  std::vector<std::string> keys_;
  uint64_t next_ = 0;
};

}  // namespace

absl::StatusOr<StoredObjects> StoreObjects(Client& client, const std::string& prefix, size_t size,
                                           size_t count) {
  StoredObjects objects = {.keys = {}, .size = size};
  Buffers buffer(size, 1);
  std::vector<PutItem> items;
  for (size_t i = 0; i < count; ++i) {
    objects.keys.push_back(absl::StrCat(prefix, i));
    items.push_back({.key = objects.keys.back(), .value = {buffer.at(0)}, .parent = ""});
    if (items.size() < kFillBatch && i + 1 < count) continue;
    RETURN_IF_ERROR(PutOnce(client, items));
    items.clear();
  }
  return objects;
}

absl::Status Learn(Client& client, const StoredObjects& objects) {
  const size_t at_a_time = std::clamp<size_t>(kLearnBytes / objects.size, 1, kFillBatch);
  Buffers buffers(objects.size, at_a_time);
  std::vector<GetItem> items;
  for (const std::string& key : objects.keys) {
    items.push_back({.key = key, .into = {buffers.at(items.size())}});
    if (items.size() < at_a_time && &key != &objects.keys.back()) continue;
    RETURN_IF_ERROR(GetOnce(client, items));
    items.clear();
  }
  return absl::OkStatus();
}

absl::StatusOr<Reading> MeasureGets(Client& client, const StoredObjects& objects,
                                    const TrafficShape& shape, absl::Duration time) {
  struct Plan {
    Buffers buffers;
    std::vector<GetItem> items;  // all objects, filled into the buffers in turn
  };
  std::vector<std::unique_ptr<Plan>> plans;
  const size_t count = objects.keys.size();
  for (size_t t = 0; t < shape.threads; ++t) {
    plans.emplace_back(new Plan{.buffers = Buffers(shape.size, shape.batch), .items = {}});
    for (size_t i = 0; i < count / shape.batch * shape.batch; ++i) {
      const std::string& key = objects.keys[(i + t * count / shape.threads) % count];
      plans[t]->items.push_back({.key = key, .into = {plans[t]->buffers.at(i % shape.batch)}});
    }
    // Not measured: connections are opened.
    RETURN_IF_ERROR(GetOnce(client, absl::MakeConstSpan(plans[t]->items).first(shape.batch)));
  }
  std::vector<Lane> lanes(shape.threads);
  const CpuMeter cpu(shape.servers);
  const absl::Duration elapsed = RunLanes(lanes, [&](size_t index, Lane& lane) {
    const auto items = absl::MakeConstSpan(plans[index]->items);
    size_t next = 0;
    const Stopwatch watch;
    do {
      const Stopwatch call;
      lane.status = GetOnce(client, items.subspan(next, shape.batch));
      lane.calls.Add(call.elapsed());
      if (!lane.status.ok()) return;
      lane.bytes += shape.size * shape.batch;
      next = (next + shape.batch) % items.size();
    } while (watch.elapsed() < time);
  });
  ASSIGN_OR_RETURN(Reading reading, Sum(lanes, elapsed));
  if (!shape.servers.empty()) {
    reading.cpu_s =
        absl::ToDoubleSeconds(cpu.used()) / (reading.rate * absl::ToDoubleSeconds(elapsed));
  }
  return reading;
}

absl::StatusOr<Reading> MeasurePuts(Client& client, const std::string& prefix, uint64_t most_bytes,
                                    const TrafficShape& shape, absl::Duration time) {
  std::vector<std::unique_ptr<PutLane>> puts;
  const uint64_t run = EntropySeed();
  for (size_t t = 0; t < shape.threads; ++t) {
    puts.push_back(
        std::make_unique<PutLane>(client, absl::StrCat(prefix, run, "/", t, "/"), shape));
  }
  std::vector<Lane> lanes(shape.threads);
  absl::Duration elapsed;
  while (elapsed < time) {
    const absl::Duration left = time - elapsed;
    elapsed += RunLanes(lanes, [&](size_t index, Lane& lane) {
      puts[index]->Run(most_bytes / shape.threads, left, lane);
    });
    // First: what could not be put may not be there to be removed either.
    for (const Lane& lane : lanes) RETURN_IF_ERROR(lane.status);
    for (auto& lane : puts) RETURN_IF_ERROR(lane->Clear());
  }
  return Sum(lanes, elapsed);
}

absl::StatusOr<Reading> MeasureViews(Client& client, const StoredObjects& objects,
                                     absl::Duration time) {
  for (const std::string& key : objects.keys) RETURN_IF_ERROR(client.GetView(key).status());
  LatencyHistogram calls;
  size_t next = 0;
  const Stopwatch watch;
  while (watch.elapsed() < time) {
    const Stopwatch call;
    const absl::StatusOr<View> view = client.GetView(objects.keys[next]);
    calls.Add(call.elapsed());
    RETURN_IF_ERROR(view.status());
    next = (next + 1) % objects.keys.size();
  }
  return Reading{.rate = 0, .p50_us = calls.QuantileMicros(0.5)};
}

}  // namespace moonpool::bench
