#include "bench/suite/ratios.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace moonpool::bench {
namespace {

const Samples* Find(const std::vector<CaseResult>& results, absl::string_view name, Field field) {
  for (const CaseResult& result : results) {
    if (result.name != name) continue;
    switch (field) {
      case Field::kRate: return &result.rate;
      case Field::kP50Micros: return &result.p50_us;
      case Field::kCpuSeconds: return &result.cpu_s;
    }
  }
  return nullptr;
}

double Value(const Figure& figure, double of, double over) {
  if (figure.over.empty()) return of;
  const double ratio = over > 0 ? of / over : 0;
  return figure.is_loss ? 1 - ratio : ratio;
}

}  // namespace

std::optional<bool> FigureResult::KeepsBound() const {
  if (figure.bound == Bound::kNone) return std::nullopt;
  const double median = samples.Median();
  return figure.bound == Bound::kAtLeast ? median >= figure.limit : median <= figure.limit;
}

std::vector<FigureResult> Evaluate(const std::vector<Figure>& figures,
                                   const std::vector<CaseResult>& results) {
  std::vector<FigureResult> evaluated;
  for (const Figure& figure : figures) {
    const Samples* const of = Find(results, figure.of, figure.field);
    const Samples* const over = figure.over.empty() ? of : Find(results, figure.over, figure.field);
    if (of == nullptr || over == nullptr || of->size() == 0 || over->size() == 0) continue;
    FigureResult result = {.figure = figure, .samples = {}};
    for (size_t round = 0; round < std::min(of->size(), over->size()); ++round) {
      result.samples.Add(Value(figure, of->at(round), over->at(round)));
    }
    evaluated.push_back(std::move(result));
  }
  return evaluated;
}

std::vector<Case> Select(std::vector<Case> cases, const std::vector<Figure>& figures,
                         const std::vector<std::string>& texts) {
  if (texts.empty()) return cases;
  const auto is_named = [&texts](const std::string& name) {
    return absl::c_any_of(
        texts, [&name](const std::string& text) { return absl::StrContains(name, text); });
  };
  std::erase_if(cases, [&](const Case& one) {
    return !is_named(one.name) && absl::c_none_of(figures, [&](const Figure& figure) {
      return is_named(figure.name) && (figure.of == one.name || figure.over == one.name);
    });
  });
  return cases;
}

std::string BoundText(const Figure& figure) {
  if (figure.bound == Bound::kNone) return "";
  return absl::StrCat(figure.bound == Bound::kAtLeast ? ">= " : "<= ", figure.limit);
}

nlohmann::ordered_json ToJson(const std::vector<FigureResult>& figures) {
  nlohmann::ordered_json ratios = nlohmann::ordered_json::object();
  nlohmann::ordered_json ranges = nlohmann::ordered_json::object();
  nlohmann::ordered_json bounds = nlohmann::ordered_json::object();
  for (const FigureResult& result : figures) {
    const std::string& name = result.figure.name;
    ratios[name] = result.samples.Median();
    ranges[name] = {result.samples.Min(), result.samples.Max()};
    if (result.figure.bound != Bound::kNone) bounds[name] = BoundText(result.figure);
  }
  return {{"ratios", ratios}, {"ratio_ranges", ranges}, {"ratio_bounds", bounds}};
}

}  // namespace moonpool::bench
