// Random commands against a naive model: an array that knows the owner of every 64 bytes.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/random.h"
#include "common/testing/status_matchers.h"
#include "storage_node/pool/extent_index.h"
#include "storage_node/pool/testing/test_pool.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;
using transport::WriterKind;

constexpr uint64_t kGranule = 64;
constexpr uint64_t kGranules = 48;  // a small stage, so that everything meets

// Owners by their number; the stage names the owner of each granule, 0 = nobody.
class Model {
 public:
  struct Part {
    Generation generation;
    Extent extent;
    Generation claimed_by = generation;  // newer, of a copy
    bool is_sealed = false;
    bool is_written = false;
    bool is_forgotten = false;
    bool has_mapped_claim = false;
  };

  StatusCode Claim(Generation generation, const Extent& extent, WriterKind kind) {
    const std::set<int> touched = Touching(extent);
    for (const int id : touched) {
      Part& part = parts_.at(id);
      if (part.is_forgotten || part.claimed_by != generation || part.extent != extent) continue;
      if (part.is_sealed) return StatusCode::kAlreadyExists;
      if (IsOver(generation)) return StatusCode::kFailedPrecondition;
      if (part.has_mapped_claim) return StatusCode::kUnavailable;
      part.is_written = false;
      part.has_mapped_claim = kind == WriterKind::kMapped;
      return StatusCode::kOk;
    }
    if (IsOver(generation)) return StatusCode::kFailedPrecondition;
    if (const StatusCode refusal = Refusal(touched, generation); refusal != StatusCode::kOk) {
      return refusal;
    }
    for (const int id : touched) Erase(id);
    const int id = ++last_id_;
    parts_[id] = Part{.generation = generation,
                      .extent = extent,
                      .has_mapped_claim = kind == WriterKind::kMapped};
    for (uint64_t g = First(extent); g < Last(extent); ++g) stage_[g] = id;
    return StatusCode::kOk;
  }

  void SetWritten(Generation generation, const Extent& extent) {
    if (Part* part = Find(generation, extent)) part->is_written = true;
  }

  // `of`: what it is a copy of; of itself.
  StatusCode Seal(Generation claim, const Extent& extent, Generation of) {
    Part* part = Find(claim, extent);
    if (part != nullptr && part->is_sealed) {
      return part->generation == of ? StatusCode::kOk : StatusCode::kFailedPrecondition;
    }
    if (IsOver(claim) || part == nullptr || !part->is_written) {
      return StatusCode::kFailedPrecondition;
    }
    part->is_sealed = true;
    part->generation = of;
    return StatusCode::kOk;
  }

  void EndClaim(Generation generation, const Extent& extent, WriterKind kind) {
    for (auto& [id, part] : parts_) {
      if (part.claimed_by != generation || part.extent != extent) continue;
      if (kind == WriterKind::kMapped) part.has_mapped_claim = false;
      if (!part.is_sealed) part.is_written = false;
    }
    DropForgotten();
  }

  void Free(Generation generation, const GrantWindow& window) {
    open_from_ = std::max(open_from_, window.oldest_open);
    freed_.insert(generation);
    for (auto& [id, part] : parts_) {
      if (part.generation == generation || part.claimed_by == generation) part.is_forgotten = true;
    }
    DropForgotten();
  }

  void Hold(Generation generation) { held_ = generation; }
  void NoteTerm(Term term) { term_ = std::max(term_, term); }

  std::set<std::pair<uint64_t, Extent>> Sealed() const {
    std::set<std::pair<uint64_t, Extent>> sealed;
    for (const auto& [id, part] : parts_) {
      if (part.is_sealed && !part.is_forgotten) {
        sealed.emplace(part.generation.value, part.extent);
      }
    }
    return sealed;
  }

 private:
  bool IsOver(Generation generation) const {
    return generation.term() < term_ || generation < open_from_ || freed_.contains(generation);
  }
  static uint64_t First(const Extent& extent) { return extent.offset / kGranule; }
  static uint64_t Last(const Extent& extent) { return (extent.end() + kGranule - 1) / kGranule; }

  std::set<int> Touching(const Extent& extent) const {
    std::set<int> ids;
    for (uint64_t g = First(extent); g < Last(extent); ++g) {
      if (stage_[g] != 0) ids.insert(stage_[g]);
    }
    return ids;
  }
  bool IsPinned(const Part& part) const {
    return part.has_mapped_claim || (part.is_sealed && held_ == part.generation);
  }
  StatusCode Refusal(const std::set<int>& touched, Generation generation) const {
    StatusCode refusal = StatusCode::kOk;
    for (const int id : touched) {
      const Part& part = parts_.at(id);
      if (!part.is_forgotten && part.claimed_by > generation) {
        return StatusCode::kFailedPrecondition;
      }
      if (!part.is_forgotten && part.claimed_by == generation) {
        refusal = StatusCode::kInvalidArgument;
      } else if (refusal == StatusCode::kOk && IsPinned(part)) {
        refusal = StatusCode::kUnavailable;
      }
    }
    return refusal;
  }
  Part* Find(Generation claim, const Extent& extent) {
    for (auto& [id, part] : parts_) {
      if (!part.is_forgotten && part.claimed_by == claim && part.extent == extent) {
        return &part;
      }
    }
    return nullptr;
  }
  void Erase(int id) {
    parts_.erase(id);
    for (int& owner : stage_) {
      if (owner == id) owner = 0;
    }
  }
  // Forgotten bytes stay only while they are pinned.
  void DropForgotten() {
    for (auto it = parts_.begin(); it != parts_.end();) {
      const auto next = std::next(it);
      if (it->second.is_forgotten && !IsPinned(it->second)) Erase(it->first);
      it = next;
    }
  }

  std::array<int, kGranules> stage_ = {};
  std::map<int, Part> parts_;
  int last_id_ = 0;
  Generation held_;
  std::set<Generation> freed_;
  Generation open_from_;
  Term term_;
};

class Rehearsal {
 public:
  explicit Rehearsal(uint64_t seed) : random_(seed) { pool_.index().AttachViewer(&viewer_); }
  ~Rehearsal() {
    claims_.clear();
    pool_.index().DetachViewer(&viewer_);
  }

  void Step() {
    switch (random_.Below(16)) {
      default: Claim(); break;
      case 7:
      case 8:
      case 9:
      case 10:
      case 11: Seal(); break;
      case 12: EndClaim(); break;
      case 13: Free(); break;
      case 14: Hold(); break;
      case 15:
        if (random_.OneIn(40)) NoteTerm();
        break;
    }
    Compare();
  }

 private:
  struct Claimed {
    Generation generation;
    Extent extent;
    WriterKind kind;
    std::shared_ptr<transport::WriteClaim> claim;
  };

  // Mostly new, sometimes an older or a repeated one.
  Generation SomeGeneration() {
    if (random_.OneIn(4)) return Gen(1 + term_, static_cast<uint32_t>(1 + random_.Below(last_)));
    return Gen(1 + term_, static_cast<uint32_t>(++last_));
  }
  Extent SomeExtent() {
    const uint64_t first = random_.Below(kGranules);
    const uint64_t granules = 1 + random_.Below(std::min<uint64_t>(12, kGranules - first));
    const uint64_t slack = random_.OneIn(3) && granules > 1 ? random_.Below(kGranule) : 0;
    return At(first * kGranule, granules * kGranule - slack);
  }

  void Claim() {
    Generation generation = SomeGeneration();
    Extent extent = SomeExtent();
    if (!claims_.empty() && random_.OneIn(8)) {  // the same writer again
      const Claimed& other = claims_[random_.Below(claims_.size())];
      generation = other.generation;
      extent = other.extent;
    }
    const WriterKind kind = random_.OneIn(5) ? WriterKind::kMapped : WriterKind::kStepwise;
    auto claim = pool_.index().Claim(generation, extent, kind);
    ASSERT_EQ(claim.status().code(), model_.Claim(generation, extent, kind))
        << claim.status() << " " << ToString(generation) << " " << ToString(extent);
    if (!claim.ok()) return;
    // The index has one claim per part: an older one of the same writer is replaced.
    for (auto it = claims_.begin(); it != claims_.end();) {
      const bool is_same = it->generation == generation && it->extent == extent;
      ASSERT_FALSE(is_same && it->claim->BeginStep());
      it = is_same ? claims_.erase(it) : std::next(it);
    }
    claims_.push_back({generation, extent, kind, *std::move(claim)});
    if (claims_.size() > 12) EndClaim();
  }

  void Seal() {
    if (claims_.empty()) return;
    Claimed& claimed = claims_[random_.Below(claims_.size())];
    if (!random_.OneIn(6)) {
      claimed.claim->SetWritten();
      model_.SetWritten(claimed.generation, claimed.extent);
    }
    const Generation of = WhatItHolds(claimed.generation);
    const transport::SealRecord record = RecordFor(of, claimed.extent, ToString(of));
    const absl::Status status = of == claimed.generation
                                    ? pool_.index().Seal(record)
                                    : pool_.index().SealCopy(record, claimed.generation);
    ASSERT_EQ(status.code(), model_.Seal(claimed.generation, claimed.extent, of)) << status;
  }

  // Some claims are of copies of what was granted earlier, perhaps freed since, or in an earlier
  // term; the same one whenever it is asked.
  static Generation WhatItHolds(Generation claim) {
    const uint32_t counter = claim.counter();
    if (counter % 3 != 0) return claim;
    if (counter % 2 == 0) return Gen(claim.term().value, counter / 2);
    return Gen(claim.term().value - 1, counter);
  }

  void EndClaim() {
    if (claims_.empty()) return;
    const size_t chosen = random_.Below(claims_.size());
    const Claimed claimed = claims_[chosen];
    claims_.erase(claims_.begin() + static_cast<ptrdiff_t>(chosen));
    model_.EndClaim(claimed.generation, claimed.extent, claimed.kind);
  }

  void Free() {
    const Generation generation = SomeGeneration();
    const Generation generations[] = {generation};
    GrantWindow window{.oldest_open = Gen(1 + term_, 1),
                       .newest = Gen(1 + term_, static_cast<uint32_t>(last_))};
    // Seldom, so that older writers go on to meet newer ones.
    if (random_.OneIn(10)) {
      window.oldest_open = Generation{window.newest.value + 1 - random_.Below(last_ / 4 + 1)};
    }
    pool_.index().Free(generations, window);
    model_.Free(generation, window);
  }

  void Hold() {
    const auto sealed = model_.Sealed();
    Generation held;
    if (!sealed.empty() && !random_.OneIn(3)) {
      held = Generation{
          std::next(sealed.begin(), static_cast<ptrdiff_t>(random_.Below(sealed.size())))->first};
    }
    viewer_.Hold(held);
    model_.Hold(held);
  }

  void NoteTerm() {
    ++term_;
    pool_.index().NoteTerm(Term{1 + term_});
    model_.NoteTerm(Term{1 + term_});
  }

  void Compare() {
    std::set<std::pair<uint64_t, Extent>> sealed;
    for (const auto& record : pool_.Inventory(3)) {
      sealed.emplace(record.generation.value, record.extent);
      ASSERT_THAT(pool_.index().OpenRead(record.generation, record.extent), IsOk());
      ASSERT_EQ(transport::LoadPartGeneration(pool_.base() + record.extent.offset),
                record.generation);
    }
    ASSERT_EQ(sealed, model_.Sealed());
    ASSERT_EQ(pool_.index().stats(0).sealed_parts, sealed.size());
    ASSERT_EQ(pool_.index().stats(0).live_claims, claims_.size());
  }

  Random random_;
  TestPool pool_;
  FakeViewer viewer_;
  Model model_;
  std::vector<Claimed> claims_;
  uint32_t term_ = 0;
  uint64_t last_ = 1;
};

TEST(ExtentIndexModel, RandomCommandsAgreeWithANaiveModel) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Rehearsal run(seed);
    for (int step = 0; step < 1500 && !::testing::Test::HasFatalFailure(); ++step) run.Step();
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace moonpool::storage_node
