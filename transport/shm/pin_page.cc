#include "transport/shm/pin_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "transport/shm/fork_epoch.h"
#include "transport/wire_bytes.h"

namespace moonpool::transport {
namespace {

constexpr uint32_t kMagic = 0x4e50504d;  // "MPPN"
constexpr size_t kSlotCountAt = 4;
constexpr size_t kHighWaterAt = 8;
constexpr size_t kClosedAt = 12;

std::atomic_ref<uint32_t> Word(const Mapping& mapping, size_t at) {
  return std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(mapping.bytes().data() + at));
}

std::atomic_ref<uint64_t> SlotWord(const Mapping& mapping, uint32_t slot) {
  std::byte* at = mapping.bytes().data() + kPinSlotsAt + 8 * size_t{slot};
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at));
}

}  // namespace

Mapping::~Mapping() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

absl::StatusOr<Mapping> Mapping::Map(int fd, uint64_t bytes, bool writable) {
  Mapping mapping;
  if (bytes == 0) return mapping;
  if (!IsSealedAgainstShrinking(fd)) {
    return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kBadFrame,
                     "the memory that is to be mapped could be cut short by others");
  }
  struct stat file {};
  if (fstat(fd, &file) != 0 || static_cast<uint64_t>(file.st_size) < bytes) {
    return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kBadFrame,
                     absl::StrCat("file of ", file.st_size, " bytes is to be mapped for ", bytes));
  }
  void* memory = mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                      MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) return SocketError("map shared memory", errno);
  mapping.bytes_ = MutableBytes(static_cast<std::byte*>(memory), bytes);
  return mapping;
}

bool IsSealedAgainstShrinking(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

absl::StatusOr<std::unique_ptr<PinPage>> PinPage::Create(uint32_t slots) {
  UniqueFd fd(memfd_create("moonpool-pins", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() || ftruncate(fd.get(), static_cast<off_t>(PinPageBytes(slots))) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return SocketError("create a page of pins", errno);
  }
  ASSIGN_OR_RETURN(Mapping mapping, Mapping::Map(fd.get(), PinPageBytes(slots), true));
  StoreAs<uint32_t>(mapping.bytes().data(), kMagic);
  StoreAs<uint32_t>(mapping.bytes().data() + kSlotCountAt, slots);
  return std::make_unique<PinPage>(std::move(fd), std::move(mapping), slots);
}

bool PinPage::Holds(Generation generation) const {
  const uint32_t used =
      std::min(Word(mapping_, kHighWaterAt).load(std::memory_order_seq_cst), slots_);
  for (uint32_t i = 0; i < used; ++i) {
    if (SlotWord(mapping_, i).load(std::memory_order_seq_cst) == generation.value) return true;
  }
  return false;
}

void PinPage::Close() { Word(mapping_, kClosedAt).store(1, std::memory_order_release); }

absl::StatusOr<std::unique_ptr<PinSlots>> PinSlots::Map(int fd, uint32_t slots) {
  if (slots == 0 || slots > kPinSlotsMax) {
    return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kBadFrame,
                     absl::StrCat("impossible number of pin slots: ", slots));
  }
  ASSIGN_OR_RETURN(Mapping mapping, Mapping::Map(fd, PinPageBytes(slots), true));
  if (LoadAs<uint32_t>(mapping.bytes().data()) != kMagic ||
      LoadAs<uint32_t>(mapping.bytes().data() + kSlotCountAt) != slots) {
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
                       {.hint = "release views, or raise the node's --shm-pin-slots"});
    }
    rest = ((head >> 32) + 1) << 32 | next_[slot].load(std::memory_order_relaxed);
  } while (!free_.compare_exchange_weak(head, rest, std::memory_order_acq_rel));
  auto high_water = Word(mapping_, kHighWaterAt);
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
         Word(mapping_, kClosedAt).load(std::memory_order_acquire) != 0;
}

std::atomic_ref<uint64_t> PinSlots::Slot(uint32_t slot) { return SlotWord(mapping_, slot); }

}  // namespace moonpool::transport
