// Ten million objects in a master: what each takes, what looking for them costs, and how long a
// call waits while a million of them go.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/measure/latency.h"
#include "bench/scale/master_load.h"
#include "bench/suite/ratios.h"
#include "bench/suite/rounds.h"

namespace moonpool::bench {

class ScaleSuite {
 public:
  // Told how many objects are there so far; not OK ends it.
  using OnProgress = std::function<absl::Status(uint64_t objects)>;

  // With that many objects, at least 10,000.
  explicit ScaleSuite(uint64_t objects) : objects_(objects) {}
  // Puts them; before any case is measured.
  absl::Status Load(const OnProgress& on_progress);

  // Borrow the suite.
  std::vector<Case> Cases();
  static std::vector<Figure> Figures();

 private:
  // What happens to a tenth of the objects.
  using Upheaval = std::function<absl::Status(MasterLoad& load, uint64_t objects)>;

  // The case whose p50 is that of a Locate meanwhile, and another for its 99th percentile. They
  // belong together: the first one runs it.
  // Afterwards the pool is filled again, which is not measured.
  void AddUpheaval(const std::string& name, Upheaval upheaval, std::vector<Case>* cases);
  absl::StatusOr<LatencyHistogram> LocateBeside(const Upheaval& upheaval);

  const uint64_t objects_;
  std::unique_ptr<MasterLoad> load_;
  double bytes_per_object_ = 0;
  int next_node_ = 0;  // to be lost
};

}  // namespace moonpool::bench
