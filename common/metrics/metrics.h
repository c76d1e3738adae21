// Counters, gauges and histograms, exposed in the Prometheus text format.
//
// Each component has a struct of references, filled from the Registry it is handed:
//
//   struct PoolMetrics {
//     explicit PoolMetrics(metrics::Registry& registry)
//         : puts(registry.AddCounter("moonpool_node_puts_total", "Objects stored.")),
//           used_bytes(registry.AddGauge("moonpool_node_used_bytes", "Bytes in use.",
//                                        {{"tier", "dram"}})),
//           get_seconds(registry.AddHistogram("moonpool_node_get_seconds", "Time to serve a get.",
//                                             metrics::LatencyBuckets())) {}
//     metrics::Counter& puts;
//     metrics::Gauge& used_bytes;
//     metrics::Histogram& get_seconds;
//   };
//
// Names: moonpool_<component>_<noun>_<unit>, and _total on counters and only there. Labels come
// from small closed sets (a tier, a reason), never from keys or tenants a peer may invent.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace moonpool::metrics {

// Recording is lock-free and may happen on any thread, the data path included.
class Counter {
 public:
  void Increment(uint64_t count = 1) { value_.fetch_add(count, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class Gauge {
 public:
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  void Add(double delta) { value_.fetch_add(delta, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

class Histogram {
 public:
  // `bounds`: inclusive upper bounds, ascending; +Inf is implied.
  explicit Histogram(std::vector<double> bounds);
  void Observe(double value);
  void Observe(absl::Duration value) { Observe(absl::ToDoubleSeconds(value)); }

  struct Snapshot {
    std::vector<std::pair<double, uint64_t>> cumulative;  // (bound, observations <= bound)
    uint64_t count = 0;
    double sum = 0;
  };
  Snapshot Read() const;

 private:
  const std::vector<double> bounds_;
  const std::unique_ptr<std::atomic<uint64_t>[]> buckets_;  // one more than bounds_: +Inf
  std::atomic<double> sum_{0};
};

// 1 us to 10 s, three per decade.
std::vector<double> LatencyBuckets();
// 1 KiB to 1 GiB, powers of four.
std::vector<double> SizeBuckets();

using Labels = std::vector<std::pair<std::string, std::string>>;

enum class Kind { kCounter, kGauge, kHistogram };

// What OPERATIONS.md says of one metric.
struct Description {
  std::string name;
  Kind kind;
  std::string help;
  std::vector<std::string> label_names;
};

// Owns the metrics of one process. Thread-safe; references stay valid as long as it lives.
// The same name with other labels joins its family; the same name and labels is the same metric.
// A name against the rule, or one reused for another kind, ends the process: it is a typo.
class Registry {
 public:
  Registry();
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  Counter& AddCounter(absl::string_view name, absl::string_view help, const Labels& labels = {});
  Gauge& AddGauge(absl::string_view name, absl::string_view help, const Labels& labels = {});
  Histogram& AddHistogram(absl::string_view name, absl::string_view help,
                          std::vector<double> bounds, const Labels& labels = {});
  // Read when somebody scrapes, on that thread. `read` must stay callable as long as the registry
  // lives, and must not call it.
  void AddSampledGauge(absl::string_view name, absl::string_view help, std::function<double()> read,
                       const Labels& labels = {});

  // The exposition of https://prometheus.io/docs/instrumenting/exposition_formats, sorted by name.
  std::string Text() const;
  // One per family, sorted by name.
  std::vector<Description> Describe() const;

 private:
  struct Metric;
  struct Family;

  Metric& FindOrAddLocked(absl::string_view name, absl::string_view help, Kind kind,
                          const Labels& labels) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::vector<std::unique_ptr<Family>> families_ ABSL_GUARDED_BY(mutex_);
};

// moonpool_process_*: resident memory, open files, CPU seconds, uptime, and build version.
void AddProcessMetrics(Registry& registry, absl::string_view version);

// The table of docs/OPERATIONS.md.
std::string DocsMarkdown(const Registry& registry);

}  // namespace moonpool::metrics
