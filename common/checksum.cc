#include "common/checksum.h"

#include <cstring>
#include <utility>

#include "common/check.h"
#include "common/checksum_kernels.h"

namespace moonpool {
namespace {

using checksum_internal::Kernels;

const Kernels& Chosen() {
  static const Kernels& kernels = __builtin_cpu_supports("avx2")
                                      ? checksum_internal::kAvx2Kernels
                                      : checksum_internal::kBaselineKernels;
  return kernels;
}

}  // namespace

struct ChecksumStream::State {
  checksum_internal::StreamState stream;
};

uint64_t Checksum(absl::Span<const std::byte> bytes) {
  return Chosen().hash(bytes.data(), bytes.size());
}

ChecksumStream::ChecksumStream() : state_(std::make_unique<State>()) { Reset(); }
ChecksumStream::~ChecksumStream() = default;
ChecksumStream::ChecksumStream(ChecksumStream&&) noexcept = default;
ChecksumStream& ChecksumStream::operator=(ChecksumStream&&) noexcept = default;

void ChecksumStream::Reset() { Chosen().reset(&state_->stream); }

void ChecksumStream::Update(absl::Span<const std::byte> bytes) {
  Chosen().update(&state_->stream, bytes.data(), bytes.size());
}

void ChecksumStream::CopyAndUpdate(std::byte* destination, absl::Span<const std::byte> source,
                                   CopyTo to) {
  Chosen().copy_and_update(&state_->stream, destination, source.data(), source.size(), to);
}

uint64_t ChecksumStream::Finish() const { return Chosen().finish(&state_->stream); }

void CopyBytes(std::byte* destination, absl::Span<const std::byte> source, CopyTo to) {
  if (source.empty()) return;  // it may be a null pointer, memcpy() takes none
  if (to == CopyTo::kCache) {
    std::memcpy(destination, source.data(), source.size());
  } else {
    Chosen().copy_past_cache(destination, source.data(), source.size());
  }
}

}  // namespace moonpool
