#include "common/rpc/place_answers.h"

#include <algorithm>
#include <optional>

#include "common/rpc/merge_message.h"
#include "common/rpc/status_proto.h"
#include "common/wire/wire_reader.h"

namespace moonpool {
namespace {

bool Read(absl::string_view bytes, Extent& extent) {
  using Wire = v1::Extent;
  WireReader reader(bytes);
  while (const uint32_t tag = reader.Next()) {
    switch (tag) {
      case VarintTag(Wire::kSegmentFieldNumber):
        extent.segment.value = static_cast<uint32_t>(reader.Varint());
        break;
      case VarintTag(Wire::kOffsetFieldNumber): extent.offset = reader.Varint(); break;
      case VarintTag(Wire::kLengthFieldNumber): extent.length = reader.Varint(); break;
      default: reader.Skip();
    }
  }
  return reader.ok();
}

bool Read(absl::string_view bytes, ToldPart& part) {
  using Wire = v1::Part;
  WireReader reader(bytes);
  while (const uint32_t tag = reader.Next()) {
    switch (tag) {
      case VarintTag(Wire::kNodeIdFieldNumber):
        part.node_id = static_cast<uint32_t>(reader.Varint());
        break;
      case BytesTag(Wire::kExtentFieldNumber):
        if (!Read(reader.Bytes(), part.extent)) return false;
        break;
      default: reader.Skip();
    }
  }
  return reader.ok();
}

bool Read(absl::string_view bytes, ToldReplica& replica) {
  WireReader reader(bytes);
  while (const uint32_t tag = reader.Next()) {
    if (tag == BytesTag(v1::Replica::kPartsFieldNumber)) {
      if (!Read(reader.Bytes(), replica.emplace_back())) return false;
    } else {
      reader.Skip();
    }
  }
  return reader.ok();
}

bool Read(absl::string_view bytes, ToldLocation& location) {
  using Wire = v1::Location;
  WireReader reader(bytes);
  while (const uint32_t tag = reader.Next()) {
    switch (tag) {
      case Fixed64Tag(Wire::kGenerationFieldNumber):
        location.generation.value = reader.Fixed64();
        break;
      case VarintTag(Wire::kHandleFieldNumber):
        location.handle = static_cast<uint32_t>(reader.Varint());
        break;
      case VarintTag(Wire::kSizeBytesFieldNumber): location.size_bytes = reader.Varint(); break;
      case BytesTag(Wire::kReplicasFieldNumber):
        if (!Read(reader.Bytes(), location.replicas.emplace_back())) return false;
        break;
      case VarintTag(Wire::kLeaseMsFieldNumber): location.lease_ms = reader.Varint(); break;
      default: reader.Skip();
    }
  }
  return reader.ok();
}

bool Read(absl::string_view bytes, ToldGrant& grant) {
  using Wire = v1::Grant;
  WireReader reader(bytes);
  while (const uint32_t tag = reader.Next()) {
    switch (tag) {
      case Fixed64Tag(Wire::kGenerationFieldNumber):
        grant.generation.value = reader.Fixed64();
        break;
      case VarintTag(Wire::kHandleFieldNumber):
        grant.handle = static_cast<uint32_t>(reader.Varint());
        break;
      case BytesTag(Wire::kReplicasFieldNumber):
        if (!Read(reader.Bytes(), grant.replicas.emplace_back())) return false;
        break;
      case VarintTag(Wire::kDeadlineMsFieldNumber): grant.deadline_ms = reader.Varint(); break;
      default: reader.Skip();
    }
  }
  return reader.ok();
}

bool Merge(absl::string_view bytes, std::optional<v1::Status>& status) {
  if (!status.has_value()) status.emplace();
  return MergeMessage(bytes, *status);
}

bool Read(absl::string_view bytes, LocateAnswer::Result& result) {
  using Wire = v1::LocateResult;
  std::optional<v1::Status> status;  // most have none
  WireReader reader(bytes);
  while (const uint32_t tag = reader.Next()) {
    switch (tag) {
      case BytesTag(Wire::kStatusFieldNumber):
        if (!Merge(reader.Bytes(), status)) return false;
        break;
      case BytesTag(Wire::kLocationFieldNumber):
        if (!Read(reader.Bytes(), result.location)) return false;
        break;
      default: reader.Skip();
    }
  }
  if (status.has_value()) result.status = StatusFromProto(*status);
  return reader.ok();
}

bool Read(absl::string_view bytes, StartPutsAnswer::Result& result) {
  using Wire = v1::PutResult;
  std::optional<v1::Status> status;  // most have none
  WireReader reader(bytes);
  while (const uint32_t tag = reader.Next()) {
    switch (tag) {
      case BytesTag(Wire::kStatusFieldNumber):
        if (!Merge(reader.Bytes(), status)) return false;
        break;
      case BytesTag(Wire::kGrantFieldNumber):
        if (!Read(reader.Bytes(), result.grant)) return false;
        break;
      case Fixed64Tag(Wire::kExistingGenerationFieldNumber):
        result.existing_generation.value = reader.Fixed64();
        break;
      default: reader.Skip();
    }
  }
  if (status.has_value()) result.status = StatusFromProto(*status);
  return reader.ok();
}

bool Read(absl::string_view bytes, absl::Status& status) {
  if (bytes.empty()) return true;  // OK, as most are
  v1::Status message;
  if (!MergeMessage(bytes, message)) return false;
  status = StatusFromProto(message);
  return true;
}

bool Read(absl::string_view bytes, CommitPutsAnswer::Bound& bound) {
  using Wire = v1::BoundPut;
  WireReader reader(bytes);
  while (const uint32_t tag = reader.Next()) {
    switch (tag) {
      case VarintTag(Wire::kHandleFieldNumber):
        bound.handle = static_cast<uint32_t>(reader.Varint());
        break;
      case Fixed64Tag(Wire::kExistingGenerationFieldNumber):
        bound.existing_generation.value = reader.Fixed64();
        break;
      default: reader.Skip();
    }
  }
  return reader.ok();
}

// One more of a list. There will be as many as have room in the `whole` answer, if they are alike:
// to move those that are there each time the list grows takes longer than to read them.
template <typename Element>
bool ReadNext(absl::string_view bytes, absl::string_view whole, std::vector<Element>& list) {
  constexpr size_t kFrameBytesMin = 2;  // a tag and a length
  if (list.empty()) {
    const size_t likely = whole.size() / (bytes.size() + kFrameBytesMin);
    list.reserve(std::clamp<size_t>(likely, 1, kMaxBatchKeys));
  }
  return list.size() < kMaxBatchKeys && Read(bytes, list.emplace_back());
}

// The fields that all have, of the message `Wire`; `read_own` reads or skips the others.
template <typename Wire, typename ReadOwn>
bool ReadFields(absl::string_view bytes, PlacesAnswer& answer, ReadOwn read_own) {
  WireReader reader(bytes);
  while (const uint32_t tag = reader.Next()) {
    switch (tag) {
      case BytesTag(Wire::kHeaderFieldNumber):
        if (!MergeMessage(reader.Bytes(), answer.response_header)) return false;
        break;
      case BytesTag(Wire::kNodesFieldNumber):
        if (!MergeMessage(reader.Bytes(), *answer.nodes.Add())) return false;
        break;
      default:
        if (!read_own(tag, reader)) return false;
    }
  }
  return reader.ok();
}

// Of the message `Wire`, whose own field is a list of results.
template <typename Wire, typename Answer>
bool ReadResults(absl::string_view bytes, Answer& answer) {
  return ReadFields<Wire>(bytes, answer, [bytes, &answer](uint32_t tag, WireReader& reader) {
    if (tag == BytesTag(Wire::kResultsFieldNumber)) {
      return ReadNext(reader.Bytes(), bytes, answer.results);
    }
    reader.Skip();
    return true;
  });
}

}  // namespace

bool ReadAnswer(absl::string_view bytes, LocateAnswer& answer) {
  return ReadResults<v1::LocateResponse>(bytes, answer);
}

bool ReadAnswer(absl::string_view bytes, StartPutsAnswer& answer) {
  return ReadResults<v1::StartPutsResponse>(bytes, answer);
}

bool ReadAnswer(absl::string_view bytes, MatchPrefixAnswer& answer) {
  using Wire = v1::MatchPrefixResponse;
  std::optional<v1::Status> miss;
  const bool is_read =
      ReadFields<Wire>(bytes, answer, [bytes, &answer, &miss](uint32_t tag, WireReader& reader) {
        switch (tag) {
          case BytesTag(Wire::kLocationsFieldNumber):
            return ReadNext(reader.Bytes(), bytes, answer.locations);
          case BytesTag(Wire::kMissFieldNumber): return Merge(reader.Bytes(), miss);
          default: reader.Skip(); return true;
        }
      });
  if (miss.has_value()) answer.miss = StatusFromProto(*miss);
  return is_read;
}

bool ReadAnswer(absl::string_view bytes, CommitPutsAnswer& answer) {
  using Wire = v1::CommitPutsResponse;
  const auto next = [bytes](WireReader& reader, auto& list) {
    return ReadNext(reader.Bytes(), bytes, list);
  };
  return ReadFields<Wire>(bytes, answer, [&](uint32_t tag, WireReader& reader) {
    switch (tag) {
      case BytesTag(Wire::kResultsFieldNumber): return next(reader, answer.results);
      case BytesTag(Wire::kBoundFieldNumber): return next(reader, answer.bound);
      case BytesTag(Wire::kSparesFieldNumber): return next(reader, answer.spares);
      default: reader.Skip(); return true;
    }
  });
}

}  // namespace moonpool
