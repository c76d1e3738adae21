#include "storage_node/pool/segment_claim.h"

#include <sched.h>

#include "common/check.h"
#include "common/guard.h"
#include "storage_node/pool/segment_index.h"

namespace moonpool::storage_node {
namespace {

// A step is one non-blocking receive, or what a copy receives at a time: a few hundred KiB, tens
// of microseconds. It takes longer only while its thread waits for a processor, so yield after a
// few looks, and give up in the order of a second.
constexpr int kLooksBeforeYield = 256;
constexpr int kLooksMax = 1 << 20;

}  // namespace

SegmentClaim::~SegmentClaim() { index_.EndClaim(*this); }

bool SegmentClaim::BeginStep() {
  uint32_t state = 0;
  if (state_.compare_exchange_strong(state, kStepping, std::memory_order_acquire)) return true;
  MP_CHECK((state & kStepping) == 0, "a step of this claim is running already", generation_.value);
  if (GuardIsOn(Guard::kRevokedStep)) return false;
  state_.fetch_or(kStepping, std::memory_order_acquire);
  return true;
}

void SegmentClaim::EndStep() { state_.fetch_and(~kStepping, std::memory_order_release); }

bool SegmentClaim::Revoke() {
  state_.fetch_or(kRevoked, std::memory_order_acq_rel);
  for (int look = 0; look < kLooksMax; ++look) {
    if ((state_.load(std::memory_order_acquire) & kStepping) == 0) return true;
    if (look >= kLooksBeforeYield) sched_yield();
  }
  return false;
}

}  // namespace moonpool::storage_node
