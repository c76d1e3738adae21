#include "master/handlers/wire.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/names.h"
#include "common/rpc/extent_proto.h"
#include "common/rpc/status_proto.h"
#include "common/status_macros.h"
#include "common/version.h"

namespace moonpool::master {

absl::Status BadArgument(absl::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument, message);
}

absl::Status CheckVersion(const v1::Version& version) {
  if (version.major() == kWireMajor) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kPeerVersion,
                   absl::StrCat("the peer speaks version ", version.major(), ".", version.minor(),
                                ", this master ", kWireMajor, ".", kWireMinor),
                   {.hint = "run clients, nodes and masters of one major version"});
}

absl::Status CheckLength(absl::string_view what, absl::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return absl::OkStatus();
  return BadArgument(
      absl::StrCat(what, " has ", text.size(), " bytes; at most ", bytes_max, " are allowed"));
}

absl::Status CheckHeader(const v1::RequestHeader& header) {
  RETURN_IF_ERROR(CheckVersion(header.version()));
  RETURN_IF_ERROR(CheckLabel("host_id", header.host_id()));
  RETURN_IF_ERROR(CheckLength("namespace", header.namespace_(), kMaxNamespaceBytes));
  if (header.touched_size() > kMaxTouches) {
    return BadArgument(absl::StrCat("touched names ", header.touched_size(), " objects; at most ",
                                    kMaxTouches, " are allowed"));
  }
  return absl::OkStatus();
}

absl::Status CheckBatch(int count) {
  if (static_cast<size_t>(count) <= kMaxBatchKeys) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kInvalidArgument, ErrorReason::kBatchTooLarge,
      absl::StrCat("the batch has ", count, " keys; at most ", kMaxBatchKeys, " are allowed"),
      {.hint = "split the batch"});
}

absl::Duration FromWireMs(uint64_t ms) {
  constexpr uint64_t kYearMs = uint64_t{366} * 24 * 3600 * 1000;
  return absl::Milliseconds(static_cast<int64_t>(std::min(ms, kYearMs)));
}

uint64_t ToWireMs(absl::Duration duration) {
  return static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Milliseconds(duration)));
}

void SetVersion(v1::Version* version) {
  version->set_major(kWireMajor);
  version->set_minor(kWireMinor);
}

void SetHeader(Term term, v1::ResponseHeader* header) {
  SetVersion(header->mutable_version());
  header->set_term(term.value);
}

WireCaller::WireCaller(const v1::RequestHeader& header, Touches touches) {
  if (touches == Touches::kApply) {
    touched_.reserve(static_cast<size_t>(header.touched_size()));
    for (const v1::Touch& touch : header.touched()) {
      touched_.push_back({touch.handle(), Generation{touch.generation()}});
    }
  }
  caller_ = Caller{.client_id = header.client_id(),
                   .host_id = header.host_id(),
                   .name_space = header.namespace_(),
                   .timeout = header.timeout_ms() == 0 ? absl::InfiniteDuration()
                                                       : FromWireMs(header.timeout_ms()),
                   .touched = touched_};
}

KeyViews ViewsOf(const google::protobuf::RepeatedPtrField<std::string>& keys) {
  return KeyViews(keys.begin(), keys.end());
}

Part FromProto(const v1::Part& part) {
  return Part{NodeId{part.node_id()}, ExtentFromProto(part.extent())};
}

void PlaceWriter::Note(NodeId node) {
  if (!nodes_.empty() && node == last_) return;
  last_ = node;
  if (seen_.insert(node.value).second) nodes_.push_back(node);
}

void PlaceWriter::Write(const Part& part) {
  out_.Varint(v1::Part::kNodeIdFieldNumber, part.node.value);
  out_.Message(v1::Part::kExtentFieldNumber, [&] {
    out_.Varint(v1::Extent::kSegmentFieldNumber, part.extent.segment.value);
    out_.Varint(v1::Extent::kOffsetFieldNumber, part.extent.offset);
    out_.Varint(v1::Extent::kLengthFieldNumber, part.extent.length);
  });
  Note(part.node);
}

void PlaceWriter::Write(int field, const Replicas& replicas) {
  for (const Replica& replica : replicas) {
    out_.Message(field, [&] {
      for (const Part& part : replica.parts) {
        out_.Message(v1::Replica::kPartsFieldNumber, [&] { Write(part); });
      }
    });
  }
}

void PlaceWriter::Write(int field, const Location& location, absl::Duration elapsed) {
  out_.Message(field, [&] {
    out_.Fixed64(v1::Location::kGenerationFieldNumber, location.generation.value);
    out_.Varint(v1::Location::kHandleFieldNumber, location.handle);
    out_.Varint(v1::Location::kSizeBytesFieldNumber, location.size_bytes);
    Write(v1::Location::kReplicasFieldNumber, location.replicas);
    // The client counts from when it sent the request; a lease that was given after a wait is as
    // much longer for it.
    if (location.lease > absl::ZeroDuration()) {
      out_.Varint(v1::Location::kLeaseMsFieldNumber, ToWireMs(location.lease + elapsed));
    }
  });
}

void PlaceWriter::Write(int field, const Grant& grant, absl::Duration elapsed) {
  out_.Message(field, [&] {
    out_.Fixed64(v1::Grant::kGenerationFieldNumber, grant.generation.value);
    out_.Varint(v1::Grant::kHandleFieldNumber, grant.handle);
    Write(v1::Grant::kReplicasFieldNumber, grant.replicas);
    // The client counts from when it sent the request.
    out_.Varint(v1::Grant::kDeadlineMsFieldNumber, ToWireMs(grant.remaining + elapsed));
  });
}

void PlaceWriter::WriteNodes(int field) const {
  for (const NodeId node : nodes_) {
    const std::optional<NodeAddressView> address = core_.AddressOf(node);
    if (!address.has_value()) continue;
    out_.Message(field, [&] {
      using Wire = v1::NodeAddress;
      out_.Varint(Wire::kNodeIdFieldNumber, address->node.value);
      out_.Bytes(Wire::kNameFieldNumber, address->name);
      out_.Fixed64(Wire::kIncarnationFieldNumber, address->incarnation.value);
      out_.Bytes(Wire::kHostIdFieldNumber, address->host_id);
      out_.Bytes(Wire::kTcpAddressFieldNumber, address->tcp_address);
      out_.Bytes(Wire::kShmPathFieldNumber, address->shm_path);
    });
  }
}

void WriteHeader(int field, Term term, WireWriter& out) {
  out.Message(field, [&] {
    out.Message(v1::ResponseHeader::kVersionFieldNumber, [&] {
      out.Varint(v1::Version::kMajorFieldNumber, kWireMajor);
      out.Varint(v1::Version::kMinorFieldNumber, kWireMinor);
    });
    out.Varint(v1::ResponseHeader::kTermFieldNumber, term.value);
  });
}

void WriteStatus(int field, const absl::Status& status, WireWriter& out) {
  if (status.ok()) return;
  v1::Status message;
  StatusToProto(status, &message);
  out.EncodedMessage(field, message.SerializeAsString());
}

void CopyToProto(const CopyCommand& command, Term term, v1::Command* out) {
  out->set_command_id(command.command_id);
  out->set_term(term.value);
  v1::Copy* const copy = out->mutable_copy();
  v1::SealedPart* const part = copy->mutable_part();
  part->set_generation(command.generation.value);
  part->set_namespace_(command.name_space);
  part->set_key(command.key);
  part->set_parent(command.parent);
  ExtentToProto(command.extent, part->mutable_extent());
  part->set_object_bytes(command.object_bytes);
  part->set_part_index(command.part_index);
  part->set_part_count(command.part_count);
  part->set_replica_index(command.replica_index);
  part->set_replicas(command.replicas);
  copy->set_claim(command.claim.value);
  AddressToProto(command.source, copy->mutable_source());
  ExtentToProto(command.source_extent, copy->mutable_source_extent());
  copy->set_timeout_ms(ToWireMs(command.timeout));
}

void AddressToProto(const NodeAddress& address, v1::NodeAddress* out) {
  out->set_node_id(address.node.value);
  out->set_name(address.name);
  out->set_incarnation(address.incarnation.value);
  out->set_host_id(address.host_id);
  out->set_tcp_address(address.tcp_address);
  out->set_shm_path(address.shm_path);
}

}  // namespace moonpool::master
