#include "common/metrics/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "common/check.h"

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

prometheus::Labels LibraryLabels(const Labels& labels) { return {labels.begin(), labels.end()}; }

// Gauges that are read at each scrape; the library has only such that are set.
class SampledGauges final : public prometheus::Collectable {
 public:
  void Add(absl::string_view name, absl::string_view help, std::function<double()> read,
           const Labels& labels) {
    absl::MutexLock lock(&mutex_);
    Family& family =
        families_.try_emplace(std::string(name), Family{std::string(help), {}}).first->second;
    family.reads[LibraryLabels(labels)] = std::move(read);
  }

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> out;
    absl::MutexLock lock(&mutex_);
    for (const auto& [name, family] : families_) {
      prometheus::MetricFamily& collected = out.emplace_back();
      collected.name = name;
      collected.help = family.help;
      collected.type = prometheus::MetricType::Gauge;
      for (const auto& [labels, read] : family.reads) {
        prometheus::ClientMetric& metric = collected.metric.emplace_back();
        for (const auto& [label, value] : labels) metric.label.push_back({label, value});
        metric.gauge.value = read();
      }
    }
    return out;
  }

 private:
  struct Family {
    std::string help;
    std::map<prometheus::Labels, std::function<double()>> reads;
  };

  mutable absl::Mutex mutex_;
  std::map<std::string, Family> families_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

void Counter::Increment(uint64_t count) { counter_.Increment(static_cast<double>(count)); }
uint64_t Counter::value() const { return static_cast<uint64_t>(counter_.Value()); }

void Gauge::Set(double value) { gauge_.Set(value); }
void Gauge::Add(double delta) { gauge_.Increment(delta); }
double Gauge::value() const { return gauge_.Value(); }

void Histogram::Observe(double value) { histogram_.Observe(value); }

Histogram::Snapshot Histogram::Read() const {
  const prometheus::ClientMetric::Histogram collected = histogram_.Collect().histogram;
  Snapshot snapshot = {
      .cumulative = {}, .count = collected.sample_count, .sum = collected.sample_sum};
  for (const prometheus::ClientMetric::Bucket& bucket : collected.bucket) {
    if (std::isinf(bucket.upper_bound)) continue;
    snapshot.cumulative.emplace_back(bucket.upper_bound, bucket.cumulative_count);
  }
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

struct Registry::Impl {
  struct Family {
    Description description;
    bool is_sampled = false;
  };

  // The first call of a name says what it is; a later one must agree.
  void Describe(Kind kind, absl::string_view name, absl::string_view help, const Labels& labels,
                bool is_sampled = false) {
    MP_CHECK(IsNameOf(kind, name), "metric name against the rule", name);
    // The library writes it as it is.
    MP_CHECK(help.find_first_of("\\\n") == help.npos, "help is one line of plain text", name);
    absl::MutexLock lock(&mutex);
    const auto [at, is_new] = families.try_emplace(std::string(name));
    Family& family = at->second;
    if (is_new) {
      family = {.description = {.name = std::string(name),
                                .kind = kind,
                                .help = std::string(help),
                                .label_names = {}},
                .is_sampled = is_sampled};
      for (const auto& [label, value] : labels) family.description.label_names.push_back(label);
    }
    MP_CHECK(family.description.kind == kind && family.is_sampled == is_sampled,
             "metric name used for two kinds", name);
  }

  // Metrics in order of their labels, and labels as they were declared.
  void Arrange(prometheus::MetricFamily& family) {
    absl::MutexLock lock(&mutex);
    const std::vector<std::string>& names = families.at(family.name).description.label_names;
    const auto place = [&names](const prometheus::ClientMetric::Label& label) {
      return std::find(names.begin(), names.end(), label.name);
    };
    for (prometheus::ClientMetric& metric : family.metric) {
      std::sort(metric.label.begin(), metric.label.end(),
                [&](const auto& a, const auto& b) { return place(a) < place(b); });
    }
    std::sort(family.metric.begin(), family.metric.end(),
              [](const auto& a, const auto& b) { return a.label < b.label; });
  }

  prometheus::Registry library;
  SampledGauges sampled;
  absl::Mutex mutex;
  std::map<std::string, Family> families ABSL_GUARDED_BY(mutex);
  // By what they are handles of; a map's nodes stay where they are.
  std::map<prometheus::Counter*, Counter> counters ABSL_GUARDED_BY(mutex);
  std::map<prometheus::Gauge*, Gauge> gauges ABSL_GUARDED_BY(mutex);
  std::map<prometheus::Histogram*, Histogram> histograms ABSL_GUARDED_BY(mutex);
};

Registry::Registry() : impl_(std::make_unique<Impl>()) {}
Registry::~Registry() = default;

Counter& Registry::AddCounter(absl::string_view name, absl::string_view help,
                              const Labels& labels) {
  impl_->Describe(Kind::kCounter, name, help, labels);
  prometheus::Counter& counter = prometheus::BuildCounter()
                                     .Name(std::string(name))
                                     .Help(std::string(help))
                                     .Register(impl_->library)
                                     .Add(LibraryLabels(labels));
  absl::MutexLock lock(&impl_->mutex);
  return impl_->counters.try_emplace(&counter, counter).first->second;
}

Gauge& Registry::AddGauge(absl::string_view name, absl::string_view help, const Labels& labels) {
  impl_->Describe(Kind::kGauge, name, help, labels);
  prometheus::Gauge& gauge = prometheus::BuildGauge()
                                 .Name(std::string(name))
                                 .Help(std::string(help))
                                 .Register(impl_->library)
                                 .Add(LibraryLabels(labels));
  absl::MutexLock lock(&impl_->mutex);
  return impl_->gauges.try_emplace(&gauge, gauge).first->second;
}

Histogram& Registry::AddHistogram(absl::string_view name, absl::string_view help,
                                  std::vector<double> bounds, const Labels& labels) {
  MP_CHECK(std::is_sorted(bounds.begin(), bounds.end()), "bucket bounds must ascend", name);
  impl_->Describe(Kind::kHistogram, name, help, labels);
  prometheus::Histogram& histogram = prometheus::BuildHistogram()
                                         .Name(std::string(name))
                                         .Help(std::string(help))
                                         .Register(impl_->library)
                                         .Add(LibraryLabels(labels), bounds);
  absl::MutexLock lock(&impl_->mutex);
  return impl_->histograms.try_emplace(&histogram, histogram).first->second;
}

void Registry::AddSampledGauge(absl::string_view name, absl::string_view help,
                               std::function<double()> read, const Labels& labels) {
  impl_->Describe(Kind::kGauge, name, help, labels, /*is_sampled=*/true);
  impl_->sampled.Add(name, help, std::move(read), labels);
}

std::string Registry::Text() const {
  std::vector<prometheus::MetricFamily> families = impl_->library.Collect();
  std::vector<prometheus::MetricFamily> sampled = impl_->sampled.Collect();
  std::move(sampled.begin(), sampled.end(), std::back_inserter(families));
  // The library hashes; a person who looks at two scrapes wants to find the same line again.
  std::sort(families.begin(), families.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  for (prometheus::MetricFamily& family : families) impl_->Arrange(family);
  return prometheus::TextSerializer().Serialize(families);
}

std::vector<Description> Registry::Describe() const {
  std::vector<Description> out;
  absl::MutexLock lock(&impl_->mutex);
  for (const auto& [name, family] : impl_->families) out.push_back(family.description);
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
