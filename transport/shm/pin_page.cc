#include "transport/shm/pin_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "transport/shm/fork_epoch.h"
#include "transport/stream/socket.h"
#include "transport/wire_bytes.h"

namespace moonpool::transport {
namespace {

std::atomic_ref<uint32_t> Word(const Mapping& mapping, size_t at) {
  return std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(mapping.bytes().data() + at));
}

std::atomic_ref<uint64_t> SlotWord(const Mapping& mapping, uint32_t slot) {
  std::byte* at = mapping.bytes().data() + kPinSlotsAt + 8 * size_t{slot};
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at));
}

class MemoryPinPage final : public PinPage {
 public:
  MemoryPinPage(UniqueFd fd, Mapping mapping, uint32_t slots)
      : fd_(std::move(fd)), mapping_(std::move(mapping)), slots_(slots) {}

  int fd() const override { return fd_.get(); }
  bool Holds(Generation generation) const override;
  void Close() override { Word(mapping_, kPinsClosedAt).store(1, std::memory_order_release); }

 private:
  const UniqueFd fd_;
  const Mapping mapping_;
  const uint32_t slots_;
};

bool MemoryPinPage::Holds(Generation generation) const {
  const uint32_t used =
      std::min(Word(mapping_, kPinHighWaterAt).load(std::memory_order_seq_cst), slots_);
  for (uint32_t i = 0; i < used; ++i) {
    if (SlotWord(mapping_, i).load(std::memory_order_seq_cst) == generation.value) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PinPage>> PinPage::Create(uint32_t slots) {
  UniqueFd fd(memfd_create("moonpool-pins", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() || ftruncate(fd.get(), static_cast<off_t>(PinPageBytes(slots))) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return SocketError("create a page of pins", errno);
  }
  ASSIGN_OR_RETURN(Mapping mapping, Mapping::Map(fd.get(), PinPageBytes(slots), true));
  StoreAs<uint32_t>(mapping.bytes().data(), kPinMagic);
  StoreAs<uint32_t>(mapping.bytes().data() + kPinSlotCountAt, slots);
  return std::make_unique<MemoryPinPage>(std::move(fd), std::move(mapping), slots);
}

absl::StatusOr<std::unique_ptr<PinSlots>> PinSlots::Map(int fd, uint32_t slots,
                                                        const FileTrust& trust) {
  if (slots == 0 || slots > kPinSlotsMax) {
    return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kBadFrame,
                     absl::StrCat("impossible number of pin slots: ", slots));
  }
  ASSIGN_OR_RETURN(Mapping mapping, Mapping::Map(fd, PinPageBytes(slots), true, trust));
  if (LoadAs<uint32_t>(mapping.bytes().data()) != kPinMagic ||
      LoadAs<uint32_t>(mapping.bytes().data() + kPinSlotCountAt) != slots) {
    return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kBadFrame, "not a page of pins");
  }
  return std::make_unique<PinSlots>(std::move(mapping), slots);
}

PinSlots::PinSlots(Mapping mapping, uint32_t slots)
    : fork_epoch_(ForkEpoch()),
      mapping_(std::move(mapping)),
      slots_(slots),
      free_(0),
      next_(slots) {
  for (uint32_t i = 0; i < slots_; ++i) next_[i] = i + 1 < slots_ ? i + 1 : kNone;
}

absl::StatusOr<uint32_t> PinSlots::Acquire(Generation generation) {
  if (ForkEpoch() != fork_epoch_) {
    return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
                     "the pins belong to the process that this one was forked from",
                     {.hint = "make a client of its own after the fork"});
  }
  uint64_t head = free_.load(std::memory_order_acquire);
  uint32_t slot;
  uint64_t rest;
  do {
    slot = static_cast<uint32_t>(head);
    if (slot == kNone) {
      return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                       absl::StrCat("all ", slots_, " pins of this process are in use"),
                       {.hint = "release views, or raise the node's pin_slots"});
    }
    rest = ((head >> 32) + 1) << 32 | next_[slot].load(std::memory_order_relaxed);
  } while (!free_.compare_exchange_weak(head, rest, std::memory_order_acq_rel));
  auto high_water = Word(mapping_, kPinHighWaterAt);
  uint32_t used = high_water.load(std::memory_order_seq_cst);
  while (used <= slot && !high_water.compare_exchange_weak(used, slot + 1)) {
  }
  Slot(slot).store(generation.value, std::memory_order_seq_cst);
  return slot;
}

void PinSlots::Release(uint32_t slot) {
  if (ForkEpoch() != fork_epoch_) return;  // the parent's view goes on
  Slot(slot).store(0, std::memory_order_release);
  uint64_t head = free_.load(std::memory_order_relaxed);
  uint64_t with_slot;
  do {
    next_[slot].store(static_cast<uint32_t>(head), std::memory_order_relaxed);
    with_slot = ((head >> 32) + 1) << 32 | slot;
  } while (!free_.compare_exchange_weak(head, with_slot, std::memory_order_acq_rel));
}

bool PinSlots::is_closed() const {
  return ForkEpoch() != fork_epoch_ ||
         Word(mapping_, kPinsClosedAt).load(std::memory_order_acquire) != 0;
}

std::atomic_ref<uint64_t> PinSlots::Slot(uint32_t slot) { return SlotWord(mapping_, slot); }

}  // namespace moonpool::transport
