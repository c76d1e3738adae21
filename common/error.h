// Errors are absl::Status. The code answers "what should the caller do?"; a typed ErrorDetail in
// its payload answers "why exactly", so that nobody parses a message.
//
//   return MakeError(absl::StatusCode::kNotFound, ErrorReason::kEvicted,
//                    absl::StrCat("key evicted ", ago, " ago by s3fifo"), {.hint = "put it
//                    again"});
//   if (ReasonOf(status) == ErrorReason::kEvicted) ...
//
// Codes: UNAVAILABLE retry with backoff; RESOURCE_EXHAUSTED back off or spill; FAILED_PRECONDITION
// refresh state (stale term, wrong fingerprint); NOT_FOUND and ALREADY_EXISTS are facts; ABORTED
// lost a race; DATA_LOSS checksum; INVALID_ARGUMENT the caller's bug; DEADLINE_EXCEEDED and
// CANCELLED what they say; INTERNAL ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace moonpool {

// The numbers are those of moonpool.v1.ErrorReason (a test compares the two).
enum class ErrorReason : int {
  kUnspecified = 0,
  kKeyEmpty = 1,
  kKeyTooLong = 2,
  kValueTooLarge = 3,
  kDuplicateKey = 4,
  kBatchTooLarge = 5,
  kBufferTooShort = 6,
  kNamespaceUnknown = 7,
  kFingerprintMismatch = 8,
  kBadArgument = 9,
  kNeverStored = 20,
  kEvicted = 21,
  kExpired = 22,
  kRemoved = 23,
  kNodeLost = 24,
  kBeingWritten = 25,
  kAlreadyExists = 40,
  kNoSpace = 41,
  kNoNodes = 42,
  kGrantAborted = 43,
  kReplicasUnmet = 44,
  kStaleGeneration = 60,
  kStaleTerm = 61,
  kChecksumMismatch = 62,
  kBytesPinned = 63,
  kBadFrame = 64,
  kPeerVersion = 65,
  kPeerUnreachable = 66,
  kLimitReached = 80,
  kDeadline = 81,
  kCancelledByCaller = 82,
  kShuttingDown = 83,
  kNotSaved = 84,
  kNotLeader = 85,
};

// "NO_SPACE": the name in the proto, for logs, metrics labels and JSON.
absl::string_view ReasonName(ErrorReason reason);

// The reason of a number from the wire; kUnspecified for one that this version does not know.
ErrorReason ReasonFromNumber(int number);

// Milliseconds from the wire, which may be more than a Duration can be made of.
absl::Duration DurationFromMs(uint64_t ms);

struct ErrorDetail {
  ErrorReason reason = ErrorReason::kUnspecified;
  std::string hint;  // what to do next, one sentence
  std::string key;
  std::string node;
  absl::Duration retry_after = absl::ZeroDuration();
  std::string
      leader;  // of kNotLeader: the master to call instead, host:port; "" where none is known
};

struct ErrorExtras {
  std::string hint = {};
  std::string key = {};
  std::string node = {};
  absl::Duration retry_after = absl::ZeroDuration();
  std::string leader = {};
};

absl::Status MakeError(absl::StatusCode code, ErrorReason reason, absl::string_view message,
                       ErrorExtras extras = {});

absl::Status WithDetail(absl::Status status, const ErrorDetail& detail);

// nullopt when the status is OK or carries none.
std::optional<ErrorDetail> DetailOf(const absl::Status& status);
ErrorReason ReasonOf(const absl::Status& status);

// "context: message", code and detail kept. OK stays OK.
absl::Status Annotate(absl::Status status, absl::string_view context);

// One line for people: "RESOURCE_EXHAUSTED (NO_SPACE): message. hint".
std::string Describe(const absl::Status& status);

}  // namespace moonpool
