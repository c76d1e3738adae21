// Objects that are read so often that one more replica helps: they get it, and lose it again.
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
  if (hot_.size() >= options_.max_hot_objects) return;
  object.extra = 1;
  hot_.push_back({slot, object.generation, core_.last_now + options_.hot_window});
  Weigh(slot);
}

void ReplicaKeeper::Cool(absl::Time now, uint32_t* work) {
  while (*work > 0 && !hot_.empty() && hot_.front().due <= now) {
    --*work;
    HotObject hot = hot_.front();
    hot_.pop_front();
    const ObjectSlot* const found = core_.objects.FindGeneration(hot.slot, hot.generation);
    if (found == nullptr || found->extra == 0) continue;
    ObjectSlot& object = core_.objects[hot.slot];
    if (heat_.WindowsSince(object.heat, Age()) >= kColdWindows) {
      object.extra = 0;
      Weigh(hot.slot);
      continue;
    }
    if (object.extra < options_.hot_max_replicas && heat_.IsHot(object.heat, Age())) {
      ++object.extra;
      Weigh(hot.slot);
    }
    hot.due = now + options_.hot_window;
    hot_.push_back(hot);
  }
}

uint64_t ReplicaKeeper::DropExtra(absl::Time now, SlotIndex spare) {
  for (int i = 0; i < kExtrasLookedAt && !hot_.empty(); ++i) {
    const HotObject hot = hot_.front();
    hot_.pop_front();
    const ObjectSlot* const found = core_.objects.FindGeneration(hot.slot, hot.generation);
    if (found == nullptr || found->extra == 0) continue;
    const bool is_of_use = heat_.IsHot(found->heat, Age());
    if (hot.slot == spare || is_of_use || now < core_.ProtectedUntil(hot.slot)) {
      hot_.push_back(hot);
      continue;
    }
    core_.objects[hot.slot].extra = 0;
    Weigh(hot.slot);
    const Stand stand = Look(hot.slot);
    const int least = Spare(stand, found->wished());
    if (least < 0) continue;
    const uint64_t freed = Drop(hot.slot, stand.replicas[static_cast<size_t>(least)]);
    if (freed > 0) return freed;
  }
  return 0;
}

}  // namespace moonpool::master
