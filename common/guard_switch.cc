#include "common/guard_switch.h"

#include <array>
#include <atomic>
#include <iterator>

#include "common/check.h"

namespace moonpool {
namespace {

// In the order of the enum.
constexpr std::array<absl::string_view, kGuards> kNames = {"served-owner",
                                                           "read-identity",
                                                           "checksum",
                                                           "view-pins",
                                                           "revoked-step",
                                                           "sealed-as-sent",
                                                           "newest-owns",
                                                           "term",
                                                           "floor",
                                                           "freed-stays-freed",
                                                           "journal-checksum",
                                                           "record-in-pool",
                                                           "record-quarantine",
                                                           "lease",
                                                           "takeover",
                                                           "inventory-first",
                                                           "highest-wins",
                                                           "tombstone",
                                                           "durable-removal",
                                                           "debt",
                                                           "given-up",
                                                           "unproved",
                                                           "obituary",
                                                           "answer-in-reign",
                                                           "spare-is-newest"};
static_assert(!kNames.back().empty(), "a guard without a name");
static_assert(kGuards <= 32, "a bit for each");

std::atomic<uint32_t> guards_off = 0;

uint32_t BitOf(Guard guard) { return uint32_t{1} << static_cast<int>(guard); }

}  // namespace

bool GuardIsOn(Guard guard) {
  return (guards_off.load(std::memory_order_relaxed) & BitOf(guard)) == 0;
}

absl::string_view GuardName(Guard guard) { return kNames[static_cast<size_t>(guard)]; }

std::optional<Guard> GuardNamed(absl::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Guard>(i);
  }
  return std::nullopt;
}

WithoutGuards::WithoutGuards(absl::Span<const Guard> guards) {
  uint32_t off = 0;
  for (const Guard guard : guards) off |= BitOf(guard);
  MP_CHECK(guards_off.exchange(off) == 0, "guards are off already");
}

WithoutGuards::~WithoutGuards() { guards_off = 0; }

}  // namespace moonpool
