// That answers are read as protobuf reads the same bytes, whatever these are. Aborts when not.
#pragma once

#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/check.h"
#include "common/rpc/place_answers.h"
#include "common/rpc/status_proto.h"

namespace moonpool {

inline bool HasGroup(const google::protobuf::Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const google::protobuf::UnknownFieldSet& unknown = reflection.GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count(); ++i) {
    if (unknown.field(i).type() == google::protobuf::UnknownField::TYPE_GROUP) return true;
  }
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      if (HasGroup(reflection.GetMessage(message, field))) return true;
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      if (HasGroup(reflection.GetRepeatedMessage(message, field, i))) return true;
    }
  }
  return false;
}

inline void CheckSame(const ToldReplicas& told,
                      const google::protobuf::RepeatedPtrField<v1::Replica>& replicas) {
  MP_CHECK(told.size() == static_cast<size_t>(replicas.size()), "replicas", told.size());
  for (size_t i = 0; i < told.size(); ++i) {
    const v1::Replica& replica = replicas[static_cast<int>(i)];
    MP_CHECK(told[i].size() == static_cast<size_t>(replica.parts_size()), "parts", told[i].size());
    for (size_t j = 0; j < told[i].size(); ++j) {
      const v1::Part& part = replica.parts(static_cast<int>(j));
      MP_CHECK(told[i][j].node_id == part.node_id(), "node");
      MP_CHECK(told[i][j].extent.segment.value == part.extent().segment(), "segment");
      MP_CHECK(told[i][j].extent.offset == part.extent().offset(), "offset");
      MP_CHECK(told[i][j].extent.length == part.extent().length(), "length");
    }
  }
}

inline void CheckSame(const ToldLocation& told, const v1::Location& location) {
  MP_CHECK(told.generation.value == location.generation(), "generation");
  MP_CHECK(told.handle == location.handle(), "handle");
  MP_CHECK(told.size_bytes == location.size_bytes(), "size");
  MP_CHECK(told.lease_ms == location.lease_ms(), "lease");
  CheckSame(told.replicas, location.replicas());
}

inline void CheckSame(const LocateAnswer::Result& told, const v1::LocateResult& result) {
  MP_CHECK(told.status == StatusFromProto(result.status()), "status", told.status.ToString());
  CheckSame(told.location, result.location());
}

inline void CheckSame(const ToldGrant& told, const v1::Grant& grant) {
  MP_CHECK(told.generation.value == grant.generation(), "generation");
  MP_CHECK(told.handle == grant.handle(), "handle");
  MP_CHECK(told.deadline_ms == grant.deadline_ms(), "deadline");
  CheckSame(told.replicas, grant.replicas());
}

inline void CheckSame(const StartPutsAnswer::Result& told, const v1::PutResult& result) {
  MP_CHECK(told.status == StatusFromProto(result.status()), "status", told.status.ToString());
  MP_CHECK(told.existing_generation.value == result.existing_generation(), "existing");
  CheckSame(told.grant, result.grant());
}

inline void CheckSame(const absl::Status& told, const v1::Status& status) {
  MP_CHECK(told == StatusFromProto(status), "status", told.ToString());
}

inline void CheckSame(const CommitPutsAnswer::Bound& told, const v1::BoundPut& bound) {
  MP_CHECK(told.handle == bound.handle(), "handle");
  MP_CHECK(told.existing_generation.value == bound.existing_generation(), "existing");
}

template <typename Told, typename Messages>
void CheckSameList(const std::vector<Told>& told, const Messages& messages) {
  MP_CHECK(told.size() == static_cast<size_t>(messages.size()), "results", told.size());
  for (size_t i = 0; i < told.size(); ++i) CheckSame(told[i], messages[static_cast<int>(i)]);
}

inline void CheckOwn(const LocateAnswer& told, const v1::LocateResponse& message) {
  CheckSameList(told.results, message.results());
}
inline void CheckOwn(const StartPutsAnswer& told, const v1::StartPutsResponse& message) {
  CheckSameList(told.results, message.results());
}
inline void CheckOwn(const MatchPrefixAnswer& told, const v1::MatchPrefixResponse& message) {
  CheckSameList(told.locations, message.locations());
  MP_CHECK(told.miss == StatusFromProto(message.miss()), "miss", told.miss.ToString());
}

inline void CheckOwn(const CommitPutsAnswer& told, const v1::CommitPutsResponse& message) {
  CheckSameList(told.results, message.results());
  CheckSameList(told.bound, message.bound());
  CheckSameList(told.spares, message.spares());
}

inline int ResultsOf(const v1::MatchPrefixResponse& message) { return message.locations_size(); }
inline int ResultsOf(const v1::CommitPutsResponse& message) {
  return std::max({message.results_size(), message.bound_size(), message.spares_size()});
}
template <typename Message>
int ResultsOf(const Message& message) {
  return message.results_size();
}

// True: the bytes are an answer.
template <typename Answer, typename Message>
bool CheckRead(const std::string& bytes) {
  Answer answer;
  Message message;
  const bool is_read = ReadAnswer(bytes, answer);
  const bool is_parsed = message.ParseFromString(bytes);
  if (!is_read) {
    const bool is_stricter =
        is_parsed && (HasGroup(message) || ResultsOf(message) > static_cast<int>(kMaxBatchKeys));
    MP_CHECK(!is_parsed || is_stricter, "protobuf reads it", message.ShortDebugString());
    return false;
  }
  MP_CHECK(is_parsed, "protobuf does not read it");
  MP_CHECK(answer.header().SerializeAsString() == message.header().SerializeAsString(), "header");
  MP_CHECK(answer.nodes.size() == message.nodes_size(), "nodes");
  for (int i = 0; i < answer.nodes.size(); ++i) {
    MP_CHECK(answer.nodes[i].SerializeAsString() == message.nodes(i).SerializeAsString(), "node");
  }
  CheckOwn(answer, message);
  return true;
}

}  // namespace moonpool
