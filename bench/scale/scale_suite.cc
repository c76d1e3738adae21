#include "bench/scale/scale_suite.h"

#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/measure/stopwatch.h"
#include "common/random.h"
#include "common/status_macros.h"

namespace moonpool::bench {
namespace {

constexpr int kNodes = 10;
constexpr uint64_t kPutsPerStep = 100'000;

// Resident memory of this process that is its own.
double ResidentBytes() {
  malloc_trim(0);  // what earlier cases have freed is no part of what comes
  std::ifstream file("/proc/self/statm");
  uint64_t size = 0, resident = 0, shared = 0;
  file >> size >> resident >> shared;
  return static_cast<double>((resident - shared) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
}

}  // namespace

absl::Status ScaleSuite::Load(const OnProgress& on_progress) {
  const double before = ResidentBytes();
  ASSIGN_OR_RETURN(load_, MasterLoad::Start(objects_, kNodes));
  for (uint64_t put = 0; put < objects_; put += kPutsPerStep) {
    RETURN_IF_ERROR(on_progress(put));
    RETURN_IF_ERROR(load_->Put(std::min(kPutsPerStep, objects_ - put)));
  }
  bytes_per_object_ = (ResidentBytes() - before) / static_cast<double>(load_->object_count());
  return absl::OkStatus();
}

absl::StatusOr<LatencyHistogram> ScaleSuite::LocateBeside(const Upheaval& upheaval) {
  std::atomic<bool> is_over = false;
  absl::Status outcome;
  std::thread other([&] {
    outcome = upheaval(*load_, objects_ / 10);
    is_over = true;
  });
  LatencyHistogram calls;
  Random random(1);
  absl::Status failure;
  while (!is_over && failure.ok()) {
    const absl::StatusOr<absl::Duration> took = load_->LocateSome(random);
    failure = took.status();
    if (took.ok()) calls.Add(*took);
  }
  other.join();
  RETURN_IF_ERROR(failure);
  RETURN_IF_ERROR(outcome);
  RETURN_IF_ERROR(load_->Put(objects_ / 10));
  return calls;
}

void ScaleSuite::AddUpheaval(const std::string& name, Upheaval upheaval, std::vector<Case>* cases) {
  auto beside = std::make_shared<LatencyHistogram>();
  cases->push_back({.name = absl::StrCat("locate_64_beside_", name),
                    .rate_unit = "keys/s",
                    .measure = [this, beside, upheaval = std::move(upheaval)](
                                   absl::Duration) -> absl::StatusOr<Reading> {
                      ASSIGN_OR_RETURN(*beside, LocateBeside(upheaval));
                      const double keys = static_cast<double>(beside->count() * MasterLoad::kBatch);
                      return Reading{.rate = keys / absl::ToDoubleSeconds(beside->total()),
                                     .p50_us = beside->QuantileMicros(0.5)};
                    }});
  cases->push_back({.name = absl::StrCat("locate_64_beside_", name, "_p99"),
                    .measure = [beside](absl::Duration) -> absl::StatusOr<Reading> {
                      return Reading{.p50_us = beside->QuantileMicros(0.99)};
                    }});
}

std::vector<Case> ScaleSuite::Cases() {
  std::vector<Case> cases;
  cases.push_back({.name = "master_bytes_per_object",
                   .rate_unit = "bytes",
                   .measure = [this](absl::Duration) -> absl::StatusOr<Reading> {
                     return Reading{.rate = bytes_per_object_};
                   }});
  cases.push_back({.name = "core_locate_64",
                   .rate_unit = "keys/s",
                   .measure = [this](absl::Duration time) -> absl::StatusOr<Reading> {
                     LatencyHistogram calls;
                     Random random(2);
                     for (const Stopwatch watch; watch.elapsed() < time;) {
                       ASSIGN_OR_RETURN(const absl::Duration took, load_->LocateSome(random));
                       calls.Add(took);
                     }
                     const double keys = static_cast<double>(calls.count() * MasterLoad::kBatch);
                     return Reading{.rate = keys / absl::ToDoubleSeconds(calls.total()),
                                    .p50_us = calls.QuantileMicros(0.5)};
                   }});
  AddUpheaval(
      "eviction", [](MasterLoad& load, uint64_t objects) { return load.Put(objects); }, &cases);
  AddUpheaval(
      "remove", [](MasterLoad& load, uint64_t objects) { return load.Remove(objects); }, &cases);
  AddUpheaval(
      "expiry", [](MasterLoad& load, uint64_t objects) { return load.LetExpire(objects); }, &cases);
  AddUpheaval(
      "node_loss",
      [this](MasterLoad& load, uint64_t) { return load.LoseNode(next_node_++ % kNodes); }, &cases);
  return cases;
}

std::vector<Figure> ScaleSuite::Figures() {
  std::vector<Figure> figures = {{.name = "master_bytes_per_object",
                                  .of = "master_bytes_per_object",
                                  .bound = Bound::kAtMost,
                                  .limit = 160}};
  for (const char* const upheaval : {"eviction", "remove", "expiry", "node_loss"}) {
    const std::string name = absl::StrCat("locate_64_beside_", upheaval);
    figures.push_back({.name = absl::StrCat("locate_p99_vs_p50_beside_", upheaval),
                       .of = absl::StrCat(name, "_p99"),
                       .field = Field::kP50Micros,
                       .over = name,
                       .bound = Bound::kAtMost,
                       .limit = 5});
  }
  return figures;
}

}  // namespace moonpool::bench
