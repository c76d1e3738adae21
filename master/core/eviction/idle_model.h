// Learns how long an unused object is worth keeping, per cohort of objects.
//
// For each cohort it counts the lives that began (an insertion or a use), and at which age, in
// epochs, the next use ended them, ghosts included: so it also knows of uses that came too late.
// From these follow, for any idle limit x, the hits that keeping the cohort's objects for x would
// bring and the space that it would take:
//
//   hits(x) = uses at an age <= x            space(x) = sum over lives of min(age at next use, x)
//
// Fit() chooses the limits of all cohorts together: most hits for the space there is. By Lagrange
// that is, for one price of space, each cohort's best hits(x) - price * space(x); a bisection finds
// the price at which the space is used up. The maximum is global, so a cohort whose uses come late
// (think time) is either kept long enough or not at all, where a hill climber would stay at a bad
// size. This is the hit density of Beckmann et al. (LHD, NSDI'18; EVA, HPCA'17), reduced to a few
// cohorts so that a handful of numbers, not a sample of objects, is compared at each eviction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace moonpool::master {

class IdleModel {
 public:
  static constexpr size_t kCohorts = 4;

  IdleModel() { limits_.fill(1.0f); }

  void OnLifeBegins(size_t cohort) { lives_[cohort] += 1.0f; }
  void OnLifeMoves(size_t from, size_t to);
  void OnUse(size_t cohort, uint32_t age_epochs);

  // One more epoch with this many objects (of the kind that is counted above). Fits now and then.
  void OnEpoch(double live_count);

  // Epochs. Equal for all cohorts until enough was seen, which makes the policy an LRU. May be 0.
  float IdleLimit(size_t cohort) const { return limits_[cohort]; }

 private:
  static constexpr size_t kAges = 48;  // exact below 4, then four per octave: 8,192 epochs

  using Limits = std::array<double, kCohorts>;
  // hits(x) and space(x) at the upper end of each age bucket.
  struct Curve {
    std::array<double, kAges> hits;
    std::array<double, kAges> space;
  };
  using Curves = std::array<Curve, kCohorts>;

  static size_t BucketOf(uint32_t age_epochs);
  static double BucketStart(size_t bucket);
  // The best limits at this price; returns the space that they take.
  static double Choose(const Curves& curves, double price, Limits& limits);

  Curves MakeCurves() const;
  void Fit();
  void Forget();

  std::array<float, kCohorts> limits_;
  std::array<float, kCohorts> lives_ = {};
  std::array<std::array<float, kAges>, kCohorts> uses_ = {};
  double space_ = 0;  // object-epochs that were there to use
  uint32_t epochs_ = 0;
};

}  // namespace moonpool::master
