#include "master/core/eviction/idle_model.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace moonpool::master {
namespace {

constexpr uint32_t kEpochsPerFit = 16;  // half a turnover
constexpr float kRetained = 0.9f;       // per fit: the memory is about five turnovers long
constexpr float kLivesToTrust = 128;
constexpr int kBisections = 32;
constexpr double kPriceMax = 4;  // hits per object-epoch; above any that can be

}  // namespace

size_t IdleModel::BucketOf(uint32_t age_epochs) {
  if (age_epochs < 4) return age_epochs;
  const int octave = std::bit_width(age_epochs) - 1;
  const uint32_t quarter = (age_epochs >> (octave - 2)) & 3u;
  return std::min<size_t>(kAges - 1, 4 * static_cast<size_t>(octave - 1) + quarter);
}

double IdleModel::BucketStart(size_t bucket) {
  if (bucket < 4) return static_cast<double>(bucket);
  return static_cast<double>((4 + bucket % 4) << (bucket / 4 - 1));
}

void IdleModel::OnLifeMoves(size_t from, size_t to) {
  lives_[from] = std::max(0.0f, lives_[from] - 1.0f);
  lives_[to] += 1.0f;
}

void IdleModel::OnUse(size_t cohort, uint32_t age_epochs) {
  uses_[cohort][BucketOf(age_epochs)] += 1.0f;
}

void IdleModel::OnEpoch(double live_count) {
  space_ += live_count;
  if (++epochs_ % kEpochsPerFit != 0) return;
  if (std::accumulate(lives_.begin(), lives_.end(), 0.0f) >= kLivesToTrust) Fit();
  Forget();
}

IdleModel::Curves IdleModel::MakeCurves() const {
  Curves curves;
  for (size_t cohort = 0; cohort < kCohorts; ++cohort) {
    double hits = 0;
    double space = 0;
    for (size_t age = 0; age < kAges; ++age) {
      const double uses = uses_[cohort][age];
      const double unused = lives_[cohort] - hits - uses / 2;  // uses spread evenly in the bucket
      space += std::max(0.0, unused) * (BucketStart(age + 1) - BucketStart(age));
      hits += uses;
      curves[cohort].hits[age] = hits;
      curves[cohort].space[age] = space;
    }
  }
  return curves;
}

double IdleModel::Choose(const Curves& curves, double price, Limits& limits) {
  double space = 0;
  for (size_t cohort = 0; cohort < kCohorts; ++cohort) {
    const Curve& curve = curves[cohort];
    double best = 0;
    double best_space = 0;
    limits[cohort] = 0;
    for (size_t age = 0; age < kAges; ++age) {
      const double gain = curve.hits[age] - price * curve.space[age];
      if (gain <= best) continue;
      best = gain;
      best_space = curve.space[age];
      limits[cohort] = BucketStart(age + 1);
    }
    space += best_space;
  }
  return space;
}

void IdleModel::Fit() {
  const Curves curves = MakeCurves();
  double too_low = 0;
  double high_enough = kPriceMax;
  Limits low_limits;
  Limits high_limits;
  for (int i = 0; i < kBisections; ++i) {
    const double price = (too_low + high_enough) / 2;
    (Choose(curves, price, high_limits) > space_ ? too_low : high_enough) = price;
  }
  const double low_space = Choose(curves, too_low, low_limits);
  const double high_space = Choose(curves, high_enough, high_limits);
  // The two solutions around the price are far apart where a curve is not concave. Mix them by the
  // space that is left.
  const double mix = low_space > high_space
                         ? std::clamp((space_ - high_space) / (low_space - high_space), 0.0, 1.0)
                         : 0.0;
  for (size_t cohort = 0; cohort < kCohorts; ++cohort) {
    limits_[cohort] =
        static_cast<float>(mix * low_limits[cohort] + (1 - mix) * high_limits[cohort]);
  }
}

void IdleModel::Forget() {
  for (float& lives : lives_) lives *= kRetained;
  for (auto& ages : uses_) {
    for (float& uses : ages) uses *= kRetained;
  }
  space_ *= kRetained;
}

}  // namespace moonpool::master
