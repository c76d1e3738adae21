// What a master answers about the places of many keys: LocateResponse, MatchPrefixResponse,
// StartPutsResponse and CommitPutsResponse, as clients take them up. They are read straight from
// the wire (common/wire), since an answer about 64 keys is some four hundred messages.
//
// Where a message says something twice the last word counts, and lists go on, as with protobuf.
// Stricter than that: no groups (wire_reader.h), and no more results than a call has keys.
#pragma once

#include <concepts>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/types.h"
#include "moonpool/v1/common.pb.h"
#include "moonpool/v1/master.pb.h"

namespace moonpool {

// As the master told them: any numbers.
struct ToldPart {
  uint32_t node_id = 0;
  Extent extent;
};
using ToldReplica = absl::InlinedVector<ToldPart, 1>;
using ToldReplicas = absl::InlinedVector<ToldReplica, 1>;

struct ToldLocation {
  Generation generation;
  uint32_t handle = 0;
  uint64_t size_bytes = 0;
  ToldReplicas replicas = {};
  uint64_t lease_ms = 0;
};

struct ToldGrant {
  Generation generation;
  uint32_t handle = 0;
  ToldReplicas replicas = {};
  uint64_t deadline_ms = 0;
};

// What they have in common, but once in each.
struct PlacesAnswer {
  v1::ResponseHeader response_header;
  google::protobuf::RepeatedPtrField<v1::NodeAddress> nodes;

  const v1::ResponseHeader& header() const { return response_header; }
};

struct LocateAnswer : PlacesAnswer {
  struct Result {
    absl::Status status;
    ToldLocation location;
  };
  std::vector<Result> results;
};

struct MatchPrefixAnswer : PlacesAnswer {
  std::vector<ToldLocation> locations;
  absl::Status miss;
};

struct StartPutsAnswer : PlacesAnswer {
  struct Result {
    absl::Status status;
    ToldGrant grant;
    Generation existing_generation;
  };
  std::vector<Result> results;
};

struct CommitPutsAnswer : PlacesAnswer {
  struct Bound {
    uint32_t handle = 0;
    Generation existing_generation;
  };
  std::vector<absl::Status> results;
  std::vector<Bound> bound;
  std::vector<ToldGrant> spares;
};

// Fills an empty answer. False: the bytes are no such message; the answer then means nothing.
bool ReadAnswer(absl::string_view bytes, LocateAnswer& answer);
bool ReadAnswer(absl::string_view bytes, MatchPrefixAnswer& answer);
bool ReadAnswer(absl::string_view bytes, StartPutsAnswer& answer);
bool ReadAnswer(absl::string_view bytes, CommitPutsAnswer& answer);

// For those who have the message: tests, simulated masters.
template <typename Answer, typename Message>
absl::StatusOr<Answer> AnswerOf(const absl::StatusOr<Message>& message) {
  if (!message.ok()) return message.status();
  Answer answer;
  if (!ReadAnswer(message->SerializeAsString(), answer)) return absl::InternalError("no message");
  return answer;
}

template <typename Type>
concept IsPlacesAnswer = std::derived_from<Type, PlacesAnswer>;

}  // namespace moonpool
