// Counters, gauges and histograms, kept by prometheus-cpp and exposed in its text format. Only
// metrics.cc sees that library.
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

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace moonpool::metrics {

// Handles of prometheus-cpp's metrics, which do the counting. Any thread may record, the data path
// included: counters and gauges take no lock, a histogram a short one of its own.
class Counter {
 public:
  explicit Counter(prometheus::Counter& counter) : counter_(counter) {}
  void Increment(uint64_t count = 1);
  // Exact up to 2^53: Prometheus' numbers are doubles.
  uint64_t value() const;

 private:
  prometheus::Counter& counter_;
};

class Gauge {
 public:
  explicit Gauge(prometheus::Gauge& gauge) : gauge_(gauge) {}
  void Set(double value);
  void Add(double delta);
  double value() const;

 private:
  prometheus::Gauge& gauge_;
};

class Histogram {
 public:
  explicit Histogram(prometheus::Histogram& histogram) : histogram_(histogram) {}
  void Observe(double value);
  void Observe(absl::Duration value) { Observe(absl::ToDoubleSeconds(value)); }

  struct Snapshot {
    std::vector<std::pair<double, uint64_t>> cumulative;  // (bound, observations <= bound)
    uint64_t count = 0;
    double sum = 0;
  };
  Snapshot Read() const;

 private:
  prometheus::Histogram& histogram_;
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
  // `bounds`: inclusive upper bounds, ascending; +Inf is implied. Those of the first call hold.
  Histogram& AddHistogram(absl::string_view name, absl::string_view help,
                          std::vector<double> bounds, const Labels& labels = {});
  // Read when somebody scrapes, on that thread. `read` must stay callable as long as the registry
  // lives, and must not call it. All gauges of one name are sampled, or none.
  void AddSampledGauge(absl::string_view name, absl::string_view help, std::function<double()> read,
                       const Labels& labels = {});

  // The exposition of https://prometheus.io/docs/instrumenting/exposition_formats, sorted by name
  // and then by labels.
  std::string Text() const;
  // One per family, sorted by name.
  std::vector<Description> Describe() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

// moonpool_process_*: resident memory, open files, CPU seconds, uptime, and build version.
void AddProcessMetrics(Registry& registry, absl::string_view version);

// The table of docs/OPERATIONS.md.
std::string DocsMarkdown(const Registry& registry);

}  // namespace moonpool::metrics
