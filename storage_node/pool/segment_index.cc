#include "storage_node/pool/segment_index.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/error.h"
#include "common/guard.h"
#include "common/status_macros.h"
#include "transport/part_header.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;

// Generations freed per hold of the lock.
constexpr size_t kFreesPerLock = 64;
// Owners looked at per hold of the lock by an inventory.
constexpr size_t kInventoryLooksPerLock = 1024;

absl::Status Pinned(const Owner& owner) {
  return MakeError(StatusCode::kUnavailable, ErrorReason::kBytesPinned,
                   absl::StrCat("generation ", ToString(owner.generation),
                                " has bytes here that are still in use"),
                   {.hint = "write to another extent, or again later"});
}

absl::Status NotOwner(Generation generation, const Extent& extent) {
  return MakeError(
      StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration,
      absl::StrCat("generation ", ToString(generation), " does not own ", ToString(extent)),
      {.hint = "ask the master for a new grant"});
}

absl::Status NotWritten(Generation generation) {
  return MakeError(StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
                   absl::StrCat("the payload of generation ", ToString(generation),
                                " is not completely written"),
                   {.hint = "write the whole payload, then seal"});
}

absl::Status WrittenOtherwise(Generation generation) {
  return MakeError(StatusCode::kDataLoss, ErrorReason::kChecksumMismatch,
                   absl::StrCat("the payload of generation ", ToString(generation),
                                " is not what its writer sent: it was damaged on the way"),
                   {.hint = "write it again"});
}

}  // namespace

SegmentIndex::~SegmentIndex() {
  absl::MutexLock lock(&mutex_);
  MP_CHECK(stats_.live_claims == 0, "claims outlive their segment", stats_.live_claims);
}

absl::Status SegmentIndex::CheckExtent(const Extent& extent) const {
  if (extent.offset % 64 != 0 || extent.length < kPartHeaderBytes) {
    return MakeError(StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                     absl::StrCat(ToString(extent), " is unaligned or has no room for a header"));
  }
  const uint64_t capacity = segment_.capacity_bytes;
  if (extent.offset > capacity || extent.length > capacity - extent.offset) {
    return MakeError(
        StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
        absl::StrCat(ToString(extent), " is outside its segment of ", capacity, " bytes"));
  }
  return absl::OkStatus();
}

// Read under the lock: an inventory that starts after the term was raised misses no older seal.
absl::Status SegmentIndex::CheckTerm(Generation generation) const {
  const Term newest{shared_.newest_term.load(std::memory_order_acquire)};
  if (!GuardIsOn(Guard::kTerm) || generation.term() >= newest) return absl::OkStatus();
  return MakeError(
      StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm,
      absl::StrCat("generation ", ToString(generation), " was granted before term ", newest.value),
      {.hint = "ask the present master for a new grant"});
}

absl::Status SegmentIndex::CheckLiveLocked(Generation generation) const {
  RETURN_IF_ERROR(CheckTerm(generation));
  const char* const why = freed_.WhyRefused(generation);
  if (why == nullptr) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration,
                   absl::StrCat("generation ", ToString(generation), " ", why),
                   {.hint = "ask the master for a new grant"});
}

absl::StatusOr<transport::ConstBytes> SegmentIndex::OpenRead(Generation generation,
                                                             const Extent& extent) const {
  absl::ReaderMutexLock lock(&mutex_);
  if (GuardIsOn(Guard::kServedOwner) && owners_.FindSealed(generation, extent) == nullptr) {
    return MakeError(
        StatusCode::kNotFound, ErrorReason::kStaleGeneration,
        absl::StrCat("generation ", ToString(generation), " is not sealed at ", ToString(extent)),
        {.hint = "locate the key again"});
  }
  return transport::ConstBytes(At(extent.offset), extent.length);
}

absl::StatusOr<std::shared_ptr<transport::WriteClaim>> SegmentIndex::Claim(
    Generation generation, const Extent& extent, transport::WriterKind kind) {
  RETURN_IF_ERROR(CheckExtent(extent));
  absl::MutexLock lock(&mutex_);
  Owner* same = owners_.Find(extent.offset);
  if (same != nullptr && (same->state == OwnerState::kForgotten || same->order() != generation ||
                          same->length != extent.length)) {
    same = nullptr;
  }
  if (same != nullptr && same->state == OwnerState::kSealed) {
    return MakeError(StatusCode::kAlreadyExists, ErrorReason::kAlreadyExists,
                     absl::StrCat("generation ", ToString(generation), " is sealed already"));
  }
  if (is_stopping_) {
    return MakeError(StatusCode::kUnavailable, ErrorReason::kShuttingDown, "this node is stopping",
                     {.hint = "write to another node, or again later"});
  }
  RETURN_IF_ERROR(CheckLiveLocked(generation));

  if (same != nullptr) {  // the same writer again, perhaps over a new connection
    if (same->claim != nullptr && (same->claim->is_mapped() || !same->claim->Revoke())) {
      return Pinned(*same);
    }
    return NewClaimLocked(*same, kind);
  }
  const Owners older = owners_.Overlapping(extent.offset, extent.end());
  RETURN_IF_ERROR(CheckOlderOwners(generation, extent, older));
  if (owners_.size() - older.size() >= shared_.parts_max) {
    return MakeError(StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                     absl::StrCat("the segment has ", shared_.parts_max, " parts already"),
                     {.hint = "store larger objects, or free some"});
  }
  RETURN_IF_ERROR(TakeFromOwnersLocked(older));
  Owner& owner = owners_.Insert(generation, extent.offset, extent.length);
  CountLocked(owner, +1);
  transport::InvalidatePartHeader(At(extent.offset));
  auto claim = NewClaimLocked(owner, kind);
  if (!claim.ok()) EraseLocked(owner);
  return claim;
}

absl::Status SegmentIndex::CheckOlderOwners(Generation generation, const Extent& extent,
                                            const Owners& owners) const {
  bool is_own = false;
  const Owner* pinned = nullptr;
  for (const Owner* owner : owners) {
    if (owner->claim != nullptr && owner->claim->is_mapped()) pinned = owner;
    if (owner->state == OwnerState::kForgotten) continue;
    if (GuardIsOn(Guard::kNewestOwns) && owner->order() > generation) {
      return NotOwner(generation, extent);
    }
    is_own |= owner->order() == generation;
  }
  if (is_own) {
    return MakeError(StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                     absl::StrCat(ToString(extent), " overlaps another part of generation ",
                                  ToString(generation)));
  }
  return pinned == nullptr ? absl::OkStatus() : Pinned(*pinned);
}

// All or nothing, but for revoked claims: their generations are outdated in any case.
absl::Status SegmentIndex::TakeFromOwnersLocked(const Owners& owners) {
  bool is_viewable = false;
  for (const Owner* owner : owners) {
    if (owner->state == OwnerState::kSealed) transport::InvalidatePartHeader(At(owner->offset));
    is_viewable |= owner->state != OwnerState::kWriting;
  }
  const Owner* pinned = nullptr;
  if (is_viewable) {
    for (const Owner* owner : owners) {
      if (owner->state == OwnerState::kWriting) continue;
      if (shared_.viewers.HoldsAny(owner->generation)) pinned = owner;
    }
  }
  for (const Owner* owner : owners) {
    if (pinned != nullptr) break;
    if (owner->claim != nullptr && !owner->claim->Revoke()) pinned = owner;
  }
  if (pinned != nullptr) {
    for (const Owner* owner : owners) {
      if (owner->state != OwnerState::kSealed) continue;
      transport::RestorePartHeader(owner->generation, At(owner->offset));
    }
    return Pinned(*pinned);
  }
  for (Owner* owner : owners) {
    if (owner->state == OwnerState::kSealed) ++stats_.superseded_parts;
    EraseLocked(*owner);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<transport::WriteClaim>> SegmentIndex::NewClaimLocked(
    Owner& owner, transport::WriterKind kind) {
  if (kind == transport::WriterKind::kMapped) {
    absl::StatusOr<JournalEntry> entry =
        shared_.journal.AppendTaken(owner.generation, {segment_.id, owner.offset, owner.length});
    RETURN_IF_ERROR(Annotate(entry.status(), "write the claim down"));
    owner.entry = *entry;
  }
  auto claim = std::make_shared<SegmentClaim>(
      *this, owner.generation, owner.offset,
      transport::MutableBytes(At(owner.offset) + kPartHeaderBytes, owner.length - kPartHeaderBytes),
      kind);
  owner.claim = claim.get();
  ++stats_.live_claims;
  return claim;
}

void SegmentIndex::WillStop() {
  absl::MutexLock lock(&mutex_);
  is_stopping_ = true;
}

void SegmentIndex::EndClaim(SegmentClaim& claim) {
  absl::MutexLock lock(&mutex_);
  --stats_.live_claims;
  Owner* owner = owners_.Find(claim.offset());
  if (owner == nullptr || owner->claim != &claim) return;  // sealed or superseded since
  owner->claim = nullptr;
  if (is_stopping_ && claim.is_mapped()) return;  // its process may be in the middle of a copy
  if (owner->state == OwnerState::kWriting) {
    shared_.journal.Erase(std::exchange(owner->entry, kNoEntry));
  } else if (owner->state == OwnerState::kForgotten &&
             !shared_.viewers.HoldsAny(owner->generation)) {
    EraseLocked(*owner);
  }
}

absl::StatusOr<bool> SegmentIndex::Seal(const transport::SealRecord& record, Generation claim) {
  RETURN_IF_ERROR(CheckExtent(record.extent));
  absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(Owner* const owner, FindSealableLocked(record, claim));
  if (owner->state == OwnerState::kSealed) return false;
  absl::StatusOr<JournalEntry> entry = shared_.journal.Append(record);
  RETURN_IF_ERROR(Annotate(entry.status(), "write the seal down"));
  shared_.journal.Erase(std::exchange(owner->entry, *entry));
  if (claim != record.generation) owners_.TurnIntoCopy(*owner, record.generation);
  DescribeOwnerLocked(record, *owner);
  if (!owner->claim->is_mapped()) owner->claim = nullptr;  // revoked; a mapped one pins on
  transport::EncodePartHeader(transport::HeaderOf(record), At(owner->offset));
  return true;
}

absl::StatusOr<Owner*> SegmentIndex::FindSealableLocked(const transport::SealRecord& record,
                                                        Generation claim) {
  Owner* owner = owners_.Find(record.extent.offset);
  if (owner != nullptr && (owner->state == OwnerState::kForgotten || owner->order() != claim ||
                           owner->length != record.extent.length)) {
    owner = nullptr;
  }
  if (owner != nullptr && owner->state == OwnerState::kSealed) {
    if (RecordLocked(*owner) == record) return owner;
    return MakeError(
        StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
        absl::StrCat("generation ", ToString(claim), " is sealed already, with other content"));
  }
  // What a copy holds was judged when it was written first. Here counts what the copy may take.
  RETURN_IF_ERROR(CheckLiveLocked(claim));
  if (owner == nullptr) return NotOwner(claim, record.extent);
  if (owner->claim == nullptr || !owner->claim->is_written()) return NotWritten(claim);
  if (GuardIsOn(Guard::kSealedAsSent) && !owner->claim->IsWrittenAs(record.payload_checksum)) {
    return WrittenOtherwise(claim);
  }
  if (!owner->claim->is_mapped() && !owner->claim->Revoke()) return Pinned(*owner);
  return owner;
}

void SegmentIndex::DescribeOwnerLocked(const transport::SealRecord& record, Owner& owner) {
  CountLocked(owner, -1);
  owner.state = OwnerState::kSealed;
  owner.replica_index = record.replica_index;
  owner.replicas = record.replicas;
  owner.part_index = record.part_index;
  owner.part_count = record.part_count;
  owner.name_space = namespaces_.Acquire(record.name_space);
  owner.object_bytes = record.object_bytes;
  owner.payload_checksum = record.payload_checksum;
  owner.SetText(record.key, record.parent);
  CountLocked(owner, +1);
}

uint64_t SegmentIndex::Free(absl::Span<const Generation> generations, const GrantWindow& window) {
  uint64_t freed = 0;
  if (GuardIsOn(Guard::kFreedStaysFreed)) {
    absl::MutexLock lock(&mutex_);
    freed_.RaiseTo(window);
  }
  for (size_t done = 0; done < generations.size(); done += kFreesPerLock) {
    absl::MutexLock lock(&mutex_);
    for (const Generation generation : generations.subspan(done, kFreesPerLock)) {
      if (GuardIsOn(Guard::kFreedStaysFreed)) freed_.Add(generation, window);
      const Owners owners = owners_.OfGeneration(generation);
      for (Owner* owner : owners) FreeOwnerLocked(*owner);
      freed += owners.size();
      stats_.freed_parts += owners.size();
    }
  }
  return freed;
}

void SegmentIndex::FreeOwnerLocked(Owner& owner) {
  bool is_pinned = owner.claim != nullptr && (owner.claim->is_mapped() || !owner.claim->Revoke());
  if (owner.state == OwnerState::kSealed) {
    transport::InvalidatePartHeader(At(owner.offset));
    is_pinned |= shared_.viewers.HoldsAny(owner.generation);
  }
  if (!is_pinned) {
    EraseLocked(owner);
    return;
  }
  CountLocked(owner, -1);
  if (owner.state == OwnerState::kSealed) {
    namespaces_.Release(owner.name_space);
    shared_.journal.Demote(owner.entry);
  }
  owners_.Forget(owner);
  CountLocked(owner, +1);
}

void SegmentIndex::EraseLocked(Owner& owner) {
  CountLocked(owner, -1);
  if (owner.state == OwnerState::kSealed) namespaces_.Release(owner.name_space);
  shared_.journal.Erase(owner.entry);
  owners_.Erase(owner);
}

std::optional<uint64_t> SegmentIndex::AppendInventory(
    uint64_t offset, size_t records_max, std::vector<transport::SealRecord>& records) const {
  absl::ReaderMutexLock lock(&mutex_);
  const Owner* owner = owners_.FindFrom(offset);
  for (size_t looks = 0;
       owner != nullptr && looks < kInventoryLooksPerLock && records.size() < records_max;
       owner = owners_.FindFrom(owner->offset + 1), ++looks) {
    if (owner->state == OwnerState::kSealed) records.push_back(RecordLocked(*owner));
  }
  if (owner == nullptr) return std::nullopt;
  return owner->offset;
}

std::optional<transport::SealRecord> SegmentIndex::RecordOf(Generation generation,
                                                            const Extent& extent) const {
  absl::ReaderMutexLock lock(&mutex_);
  const Owner* const owner = owners_.FindSealed(generation, extent);
  if (owner == nullptr) return std::nullopt;
  return RecordLocked(*owner);
}

std::optional<PartAtRest> SegmentIndex::OpenAtRest(Generation generation,
                                                   const Extent& extent) const {
  absl::ReaderMutexLock lock(&mutex_);
  const Owner* const owner = owners_.FindSealed(generation, extent);
  if (owner == nullptr) return std::nullopt;
  return PartAtRest{.order = owner->order(), .bytes = {At(owner->offset), owner->length}};
}

// Under the lock the header of a sealed part is whole: it is invalidated and put back, or written
// anew, in one hold.
bool SegmentIndex::DropIfDamaged(const transport::SealRecord& record, Generation order,
                                 bool is_payload_whole) {
  alignas(8) std::byte header[kPartHeaderBytes];
  transport::EncodePartHeader(transport::HeaderOf(record), header);
  absl::MutexLock lock(&mutex_);
  Owner* const owner = owners_.FindSealed(record.generation, record.extent);
  if (owner == nullptr || owner->order() != order) return false;
  const bool is_header_whole = std::memcmp(header, At(owner->offset), kPartHeaderBytes) == 0;
  if (is_header_whole && is_payload_whole) return false;
  FreeOwnerLocked(*owner);
  ++stats_.damaged_parts;
  return true;
}

transport::SealRecord SegmentIndex::RecordLocked(const Owner& owner) const {
  return transport::SealRecord{.generation = owner.generation,
                               .name_space = std::string(namespaces_.NameOf(owner.name_space)),
                               .key = std::string(owner.key()),
                               .parent = std::string(owner.parent()),
                               .extent = {segment_.id, owner.offset, owner.length},
                               .object_bytes = owner.object_bytes,
                               .part_index = owner.part_index,
                               .part_count = owner.part_count,
                               .replica_index = owner.replica_index,
                               .replicas = owner.replicas,
                               .payload_checksum = owner.payload_checksum};
}

SegmentStats SegmentIndex::stats() const {
  absl::ReaderMutexLock lock(&mutex_);
  return stats_;
}

void SegmentIndex::CountLocked(const Owner& owner, int sign) {
  const uint64_t one = sign > 0 ? 1 : ~uint64_t{0};
  switch (owner.state) {
    case OwnerState::kWriting: stats_.writing_parts += one; return;
    case OwnerState::kForgotten: stats_.pinned_parts += one; return;
    case OwnerState::kSealed:
      stats_.sealed_parts += one;
      stats_.sealed_bytes += owner.length * one;
      return;
  }
}

}  // namespace moonpool::storage_node
