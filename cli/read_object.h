// Reads an object of any size: asks how large it is, then reads it into a buffer of its own.
// Client::Get without a buffer takes the master's word for the size and so stops at a bound of its
// own, which is less than what `put` stores.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "moonpool/client.h"

namespace moonpool::cli {

struct ObjectBytes {
  std::unique_ptr<std::byte[]> bytes;
  size_t size = 0;
};

// NOT_FOUND with the reason of the miss; RESOURCE_EXHAUSTED with LIMIT_REACHED when there is no
// memory for it. `client`: Client, or what a test has in its place.
template <typename AnyClient>
absl::StatusOr<ObjectBytes> ReadObject(AnyClient& client, const std::string& key) {
  constexpr int kRounds = 4;
  absl::Status failure;
  // Between the two steps it may be replaced by a larger one.
  for (int round = 0; round < kRounds; ++round) {
    ASSIGN_OR_RETURN(const PrefixMatch match, client.MatchPrefix({&key, 1}, MatchOptions()));
    if (match.matched == 0) return match.miss;
    ObjectBytes object = {.bytes = nullptr, .size = match.sizes[0]};
    object.bytes.reset(new (std::nothrow) std::byte[object.size]);
    if (object.bytes == nullptr) {
      return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                       absl::StrCat("no memory for the ", object.size, " bytes of the object"),
                       {.hint = "read it on a host with more memory"});
    }
    const GetItem item = {.key = key, .into = {MutableBuffer(object.bytes.get(), object.size)}};
    const absl::StatusOr<size_t> read = client.GetMany({&item, 1}, GetOptions()).front();
    if (read.ok()) {
      object.size = *read;
      return object;
    }
    failure = read.status();
    if (ReasonOf(failure) != ErrorReason::kBufferTooShort) break;
  }
  return failure;
}

}  // namespace moonpool::cli
