// Objects that are read so often that one more replica helps: they get it, and lose it again.
#include <optional>

#include "master/core/core_state.h"
#include "master/core/replica_keeper.h"

namespace moonpool::master {
namespace {

constexpr uint8_t kColdWindows = 3;  // without a read
constexpr int kExtrasLookedAt = 4;

}  // namespace

void ReplicaKeeper::OnRead(SlotIndex slot) {
  ObjectSlot& object = core_.objects[slot];
  object.heat = heat_.AfterRead(object.heat, Age(), core_.random);
  if (object.extra > 0 || options_.hot_max_replicas == 0 || !heat_.IsHot(object.heat, Age())) {
    return;
  }
  // One that is there without an extra replica got none in this window.
  if (hot_.contains(slot) || hot_.size() >= options_.max_hot_objects) return;
  object.extra = 1;
  hot_.Put(slot, core_.last_now + options_.hot_window);
  Weigh(slot);
}

void ReplicaKeeper::Cool(absl::Time now, uint32_t* work) {
  while (*work > 0) {
    const std::optional<SlotIndex> due = hot_.Due(now);
    if (!due.has_value()) break;
    --*work;
    ObjectSlot& object = core_.objects[*due];
    const bool is_hot = heat_.IsHot(object.heat, Age());
    const bool is_cold = heat_.WindowsSince(object.heat, Age()) >= kColdWindows;
    if (is_cold || (object.extra == 0 && !is_hot)) {
      hot_.Remove(*due);
      object.extra = 0;
      Weigh(*due);
      continue;
    }
    hot_.Put(*due, now + options_.hot_window);
    if (!is_hot || object.extra >= options_.hot_max_replicas) continue;
    ++object.extra;
    Weigh(*due);
  }
}

uint64_t ReplicaKeeper::DropExtra(absl::Time now, SlotIndex spare) {
  for (int i = 0; i < kExtrasLookedAt && hot_.size() > 0; ++i) {
    const SlotIndex slot = last_of_hot_ = hot_.After(last_of_hot_);
    ObjectSlot& object = core_.objects[slot];
    const bool is_of_use = heat_.IsHot(object.heat, Age());
    if (slot == spare || object.extra == 0 || is_of_use || now < core_.ProtectedUntil(slot)) {
      continue;
    }
    hot_.Remove(slot);
    object.extra = 0;
    Weigh(slot);
    const Stand stand = Look(slot);
    const int least = Spare(stand, object.wished());
    if (least < 0) continue;
    const uint64_t freed = Drop(slot, stand.replicas[static_cast<size_t>(least)]);
    if (freed > 0) return freed;
  }
  return 0;
}

}  // namespace moonpool::master
