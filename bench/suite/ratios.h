// What a benchmark is read for: a few named numbers, most of them ours over the machine's limit in
// the same round, with the bound that they should keep.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "bench/measure/samples.h"
#include "bench/suite/rounds.h"
#include "nlohmann/json.hpp"

namespace moonpool::bench {

enum class Field { kRate, kP50Micros, kCpuSeconds };
enum class Bound { kNone, kAtLeast, kAtMost };

struct Figure {
  std::string name;
  std::string of = {};  // case
  Field field = Field::kRate;
  std::string over = {};  // case it is divided by, round by round; empty = the plain number
  Bound bound = Bound::kNone;
  double limit = 0;
  // 1 - of / over: the share that `of` loses against `over`.
  bool is_loss = false;
};

struct FigureResult {
  Figure figure;
  Samples samples;  // one per round
  // Nothing to say when there is no bound.
  std::optional<bool> KeepsBound() const;
};

// Figures whose cases were not measured are left out.
std::vector<FigureResult> Evaluate(const std::vector<Figure>& figures,
                                   const std::vector<CaseResult>& results);

// The cases whose name contains one of `texts`, and those that figures with such a name need; all
// when there are no texts.
std::vector<Case> Select(std::vector<Case> cases, const std::vector<Figure>& figures,
                         const std::vector<std::string>& texts);

// {"ratios": {name: median}, "ratio_ranges": {name: [min, max]}, "ratio_bounds": {name: ">= 1"}}
nlohmann::ordered_json ToJson(const std::vector<FigureResult>& figures);

// ">= 0.75", or empty.
std::string BoundText(const Figure& figure);

}  // namespace moonpool::bench
