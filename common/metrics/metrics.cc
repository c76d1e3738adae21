#include "common/metrics/metrics.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/check.h"
#include "common/metrics/metrics_text.h"

namespace moonpool::metrics {
namespace {

bool IsNameOf(Kind kind, absl::string_view name) {
  if (!absl::StartsWith(name, "moonpool_")) return false;
  for (const char c : name) {
    if (!(c == '_' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))) return false;
  }
  return absl::EndsWith(name, "_total") == (kind == Kind::kCounter);
}

const char* KindName(Kind kind) {
  switch (kind) {
    case Kind::kCounter: return "counter";
    case Kind::kGauge: return "gauge";
    case Kind::kHistogram: return "histogram";
  }
  return "";
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)),
      buckets_(std::make_unique<std::atomic<uint64_t>[]>(bounds_.size() + 1)) {
  MP_CHECK(std::is_sorted(bounds_.begin(), bounds_.end()), "bucket bounds must ascend");
}

void Histogram::Observe(double value) {
  const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  const auto index = static_cast<size_t>(bound - bounds_.begin());
  buckets_[index].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

// The count is the sum of the buckets and not a field of its own, so that a scrape in the middle
// of an Observe still shows a histogram that adds up.
Histogram::Snapshot Histogram::Read() const {
  Snapshot snapshot;
  for (size_t i = 0; i < bounds_.size(); ++i) {
    snapshot.count += buckets_[i].load(std::memory_order_relaxed);
    snapshot.cumulative.emplace_back(bounds_[i], snapshot.count);
  }
  snapshot.count += buckets_[bounds_.size()].load(std::memory_order_relaxed);
  snapshot.sum = sum_.load(std::memory_order_relaxed);
  return snapshot;
}

std::vector<double> LatencyBuckets() {
  return {1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3,
          5e-3, 1e-2, 2e-2, 5e-2, 1e-1, 2e-1, 5e-1, 1,    2,    5,    10};
}

std::vector<double> SizeBuckets() {
  std::vector<double> bounds;
  for (double bytes = 1024; bytes <= 1024.0 * 1024 * 1024; bytes *= 4) bounds.push_back(bytes);
  return bounds;
}

struct Registry::Metric {
  Labels labels;
  Counter counter;
  Gauge gauge;
  std::unique_ptr<Histogram> histogram;
  std::function<double()> sampled;
};

struct Registry::Family {
  std::string name;
  std::string help;
  Kind kind;
  std::vector<std::unique_ptr<Metric>> metrics;
};

Registry::Registry() = default;
Registry::~Registry() = default;

Registry::Metric& Registry::FindOrAddLocked(absl::string_view name, absl::string_view help,
                                            Kind kind, const Labels& labels) {
  MP_CHECK(IsNameOf(kind, name), "metric name against the rule", name);
  auto family = std::lower_bound(families_.begin(), families_.end(), name,
                                 [](const auto& f, absl::string_view n) { return f->name < n; });
  if (family == families_.end() || (*family)->name != name) {
    family = families_.insert(
        family, std::make_unique<Family>(Family{std::string(name), std::string(help), kind, {}}));
  }
  MP_CHECK((*family)->kind == kind, "metric name used for two kinds", name);
  for (const auto& metric : (*family)->metrics) {
    if (metric->labels == labels) return *metric;
  }
  (*family)->metrics.push_back(std::make_unique<Metric>());
  (*family)->metrics.back()->labels = labels;
  return *(*family)->metrics.back();
}

Counter& Registry::AddCounter(absl::string_view name, absl::string_view help,
                              const Labels& labels) {
  absl::MutexLock lock(&mutex_);
  return FindOrAddLocked(name, help, Kind::kCounter, labels).counter;
}

Gauge& Registry::AddGauge(absl::string_view name, absl::string_view help, const Labels& labels) {
  absl::MutexLock lock(&mutex_);
  return FindOrAddLocked(name, help, Kind::kGauge, labels).gauge;
}

Histogram& Registry::AddHistogram(absl::string_view name, absl::string_view help,
                                  std::vector<double> bounds, const Labels& labels) {
  absl::MutexLock lock(&mutex_);
  Metric& metric = FindOrAddLocked(name, help, Kind::kHistogram, labels);
  if (!metric.histogram) metric.histogram = std::make_unique<Histogram>(std::move(bounds));
  return *metric.histogram;
}

void Registry::AddSampledGauge(absl::string_view name, absl::string_view help,
                               std::function<double()> read, const Labels& labels) {
  absl::MutexLock lock(&mutex_);
  FindOrAddLocked(name, help, Kind::kGauge, labels).sampled = std::move(read);
}

std::string Registry::Text() const {
  std::string text;
  absl::MutexLock lock(&mutex_);
  for (const auto& family : families_) {
    AppendHeader(family->name, family->help, KindName(family->kind), &text);
    for (const auto& metric : family->metrics) {
      switch (family->kind) {
        case Kind::kCounter:
          AppendSample(family->name, metric->labels, static_cast<double>(metric->counter.value()),
                       &text);
          break;
        case Kind::kGauge:
          AppendSample(family->name, metric->labels,
                       metric->sampled ? metric->sampled() : metric->gauge.value(), &text);
          break;
        case Kind::kHistogram:
          AppendHistogram(family->name, metric->labels, metric->histogram->Read(), &text);
          break;
      }
    }
  }
  return text;
}

std::vector<Description> Registry::Describe() const {
  std::vector<Description> out;
  absl::MutexLock lock(&mutex_);
  for (const auto& family : families_) {
    Description& description = out.emplace_back();
    description.name = family->name;
    description.kind = family->kind;
    description.help = family->help;
    for (const auto& [name, value] : family->metrics.front()->labels) {
      description.label_names.push_back(name);
    }
  }
  return out;
}

std::string DocsMarkdown(const Registry& registry) {
  std::string text = "| metric | kind | labels | meaning |\n|---|---|---|---|\n";
  for (const Description& metric : registry.Describe()) {
    absl::StrAppend(&text, "| `", metric.name, "` | ", KindName(metric.kind), " | ",
                    absl::StrJoin(metric.label_names, ", "), " | ", metric.help, " |\n");
  }
  return text;
}

}  // namespace moonpool::metrics
