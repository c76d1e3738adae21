// The numbers of one measurement, one per round.
#pragma once

#include <algorithm>
#include <vector>

namespace moonpool::bench {

class Samples {
 public:
  void Add(double value) { values_.push_back(value); }
  size_t size() const { return values_.size(); }
  double at(size_t round) const { return values_[round]; }

  double Median() const {
    if (values_.empty()) return 0;
    std::vector<double> sorted = values_;
    std::sort(sorted.begin(), sorted.end());
    const size_t middle = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }
  double Min() const {
    return values_.empty() ? 0 : *std::min_element(values_.begin(), values_.end());
  }
  double Max() const {
    return values_.empty() ? 0 : *std::max_element(values_.begin(), values_.end());
  }

 private:
  std::vector<double> values_;
};

}  // namespace moonpool::bench
