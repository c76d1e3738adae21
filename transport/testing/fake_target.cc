#include "transport/testing/fake_target.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::transport {
namespace {

constexpr uint64_t kAlignment = 64;

absl::Status Stale(absl::StatusCode code, absl::string_view what) {
  return MakeError(code, ErrorReason::kStaleGeneration, what);
}

absl::Status Pinned(absl::string_view by) {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kBytesPinned,
                   absl::StrCat("the bytes are in use by ", by));
}

bool Overlap(const Extent& a, const Extent& b) {
  return a.segment == b.segment && a.offset < b.end() && b.offset < a.end();
}

int SealedMemory(uint64_t bytes) {
  const int fd = memfd_create("fake-target", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  MP_CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0 &&
               fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0,
           "no memory for a segment");
  return fd;
}

int File(const std::string& path, uint64_t bytes) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  MP_CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0, "no file for a segment", path);
  return fd;
}

}  // namespace

class FakeTarget::FakeClaim final : public WriteClaim {
 public:
  FakeClaim(FakeTarget& target, WriterKind writer, MutableBytes payload)
      : target_(target), writer_(writer), payload_(payload) {}
  ~FakeClaim() override { target_.Release(this); }

  MutableBytes payload() override { return payload_; }
  bool BeginStep() override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    step_.Lock();
    if (!is_superseded_) return true;
    step_.Unlock();
    return false;
  }
  void EndStep() override ABSL_NO_THREAD_SAFETY_ANALYSIS { step_.Unlock(); }
  void SetWritten() override { target_.SetWritten(this); }

  WriterKind writer() const { return writer_; }
  // Waits for the step that is running.
  void Supersede() {
    absl::MutexLock lock(&step_);
    is_superseded_ = true;
  }

 private:
  FakeTarget& target_;
  const WriterKind writer_;
  const MutableBytes payload_;
  absl::Mutex step_;
  bool is_superseded_ ABSL_GUARDED_BY(step_) = false;
};

FakeTarget::FakeTarget(Incarnation incarnation, std::vector<uint64_t> segment_bytes,
                       const std::string& folder)
    : incarnation_(incarnation) {
  for (const uint64_t bytes : segment_bytes) {
    const int fd = folder.empty()
                       ? SealedMemory(bytes)
                       : File(absl::StrCat(folder, "/segment-", segments_.size()), bytes);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MP_CHECK(memory != MAP_FAILED, "no memory for a segment", bytes);
    segments_.push_back({fd, bytes, static_cast<std::byte*>(memory)});
  }
}

FakeTarget::~FakeTarget() {
  for (const Segment& segment : segments_) {
    munmap(segment.memory, segment.bytes);
    close(segment.fd);
  }
}

absl::Status FakeTarget::CheckExtent(const Extent& extent) const {
  if (extent.segment.value < segments_.size() && extent.offset % kAlignment == 0 &&
      extent.length >= kPartHeaderBytes && extent.end() <= segments_[extent.segment.value].bytes) {
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                   absl::StrCat("no such extent: ", ToString(extent)));
}

std::byte* FakeTarget::HeaderOf(const Extent& extent) const {
  return segments_[extent.segment.value].memory + extent.offset;
}

std::vector<size_t> FakeTarget::OverlappingLocked(const Extent& extent) const {
  std::vector<size_t> found;
  for (size_t i = 0; i < owners_.size(); ++i) {
    if (Overlap(owners_[i].extent, extent)) found.push_back(i);
  }
  return found;
}

absl::StatusOr<ConstBytes> FakeTarget::OpenRead(Generation generation, const Extent& extent) {
  absl::MutexLock lock(&mutex_);
  for (const Owner& owner : owners_) {
    if (owner.generation == generation && owner.extent == extent && owner.is_sealed) {
      return ConstBytes(HeaderOf(extent), extent.length);
    }
  }
  return Stale(absl::StatusCode::kNotFound, "the generation does not own the extent");
}

// Invalidates the headers of sealed owners; puts them back when a viewer holds one.
bool FakeTarget::UnpinnedLocked(const std::vector<size_t>& owners) {
  for (const size_t i : owners) {
    if (owners_[i].is_sealed) InvalidatePartHeader(HeaderOf(owners_[i].extent));
  }
  bool is_pinned = false;
  for (const size_t i : owners) {
    for (const ViewPins* viewer : viewers_) {
      is_pinned |= owners_[i].is_sealed && viewer->Holds(owners_[i].generation);
    }
  }
  for (const size_t i : owners) {
    if (is_pinned && owners_[i].is_sealed) {
      RestorePartHeader(owners_[i].generation, HeaderOf(owners_[i].extent));
    }
  }
  return !is_pinned;
}

absl::Status FakeTarget::SupersedeLocked(Generation generation, const Extent& extent) {
  const std::vector<size_t> overlapping = OverlappingLocked(extent);
  for (const size_t i : overlapping) {
    const Owner& owner = owners_[i];
    if (owner.generation > generation) {
      return Stale(absl::StatusCode::kFailedPrecondition, "a newer generation owns the bytes");
    }
    if (owner.generation == generation && owner.is_sealed && owner.extent == extent) {
      return absl::AlreadyExistsError("sealed already");
    }
    if (owner.claim != nullptr && owner.claim->writer() == WriterKind::kMapped) {
      return Pinned("a mapped writer");
    }
  }
  if (!UnpinnedLocked(overlapping)) return Pinned("a view");
  for (const size_t i : overlapping) {
    if (owners_[i].claim != nullptr) owners_[i].claim->Supersede();
  }
  std::erase_if(owners_, [&](const Owner& owner) { return Overlap(owner.extent, extent); });
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<WriteClaim>> FakeTarget::Claim(Generation generation,
                                                              const Extent& extent,
                                                              WriterKind kind) {
  RETURN_IF_ERROR(CheckExtent(extent));
  absl::MutexLock lock(&mutex_);
  if (generation.term() < newest_term_) {
    return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm,
                     "a newer leader was seen");
  }
  RETURN_IF_ERROR(SupersedeLocked(generation, extent));
  newest_term_ = generation.term();
  InvalidatePartHeader(HeaderOf(extent));
  auto claim = std::make_shared<FakeClaim>(
      *this, kind, MutableBytes(HeaderOf(extent) + kPartHeaderBytes, extent.payload_bytes()));
  owners_.push_back({.generation = generation, .extent = extent, .claim = claim.get()});
  return claim;
}

absl::Status FakeTarget::Seal(const SealRecord& record) {
  absl::MutexLock lock(&mutex_);
  if (record.generation.term() < newest_term_) {
    return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm,
                     "a newer leader was seen");
  }
  for (Owner& owner : owners_) {
    if (owner.generation != record.generation || owner.extent != record.extent) continue;
    if (owner.is_sealed) return absl::OkStatus();
    if (!owner.is_written) {
      return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
                       "the payload is not completely written");
    }
    EncodePartHeader(transport::HeaderOf(record), HeaderOf(record.extent));
    owner.is_sealed = true;
    ++seal_count_;
    return absl::OkStatus();
  }
  return Stale(absl::StatusCode::kFailedPrecondition, "the generation does not own the extent");
}

void FakeTarget::Restore(const SealRecord& record) {
  absl::MutexLock lock(&mutex_);
  owners_.push_back({.generation = record.generation, .extent = record.extent, .is_sealed = true});
}

void FakeTarget::Release(FakeClaim* claim) {
  absl::MutexLock lock(&mutex_);
  std::erase_if(owners_,
                [&](const Owner& owner) { return owner.claim == claim && !owner.is_sealed; });
  for (Owner& owner : owners_) {
    if (owner.claim == claim) owner.claim = nullptr;
  }
}

void FakeTarget::SetWritten(FakeClaim* claim) {
  absl::MutexLock lock(&mutex_);
  for (Owner& owner : owners_) owner.is_written |= owner.claim == claim;
}

void FakeTarget::Doubt(Generation generation, const Extent&) {
  absl::MutexLock lock(&mutex_);
  doubts_.push_back(generation);
}

void FakeTarget::AttachViewer(const ViewPins* viewer) {
  absl::MutexLock lock(&mutex_);
  viewers_.push_back(viewer);
}

void FakeTarget::DetachViewer(const ViewPins* viewer) {
  absl::MutexLock lock(&mutex_);
  MP_CHECK(std::erase(viewers_, viewer) == 1, "viewer was not attached");
}

std::vector<std::byte> FakeTarget::PayloadOf(const Extent& extent) const {
  absl::MutexLock lock(&mutex_);
  const std::byte* payload = HeaderOf(extent) + kPartHeaderBytes;
  return std::vector<std::byte>(payload, payload + extent.payload_bytes());
}

void FakeTarget::CorruptPayload(const Extent& extent, uint64_t at) {
  absl::MutexLock lock(&mutex_);
  HeaderOf(extent)[kPartHeaderBytes + at] ^= std::byte{0x40};
}

size_t FakeTarget::seal_count() const {
  absl::MutexLock lock(&mutex_);
  return seal_count_;
}

size_t FakeTarget::viewer_count() const {
  absl::MutexLock lock(&mutex_);
  return viewers_.size();
}

std::vector<Generation> FakeTarget::doubts() const {
  absl::MutexLock lock(&mutex_);
  return doubts_;
}

size_t FakeTarget::open_claims() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<size_t>(std::count_if(owners_.begin(), owners_.end(),
                                           [](const Owner& owner) { return !owner.is_sealed; }));
}

}  // namespace moonpool::transport
