// Between the messages of proto/ and the core's values. What arrives here was written by anybody:
// each Check function says what is wrong with it as the caller's typed error.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/types.h"
#include "common/wire/wire_writer.h"
#include "master/core/commands.h"
#include "master/core/core.h"
#include "master/core/node_commands.h"
#include "moonpool/v1/common.pb.h"
#include "moonpool/v1/master.pb.h"
#include "moonpool/v1/membership.pb.h"

namespace moonpool::master {

inline constexpr size_t kMaxAddressBytes = 1024;
inline constexpr int kMaxTouches = 4096;

// FAILED_PRECONDITION/PEER_VERSION for another major.
absl::Status CheckVersion(const v1::Version& version);
absl::Status CheckHeader(const v1::RequestHeader& header);
// INVALID_ARGUMENT/BATCH_TOO_LARGE.
absl::Status CheckBatch(int count);
// INVALID_ARGUMENT/BAD_ARGUMENT when `text` is longer than `bytes_max`.
absl::Status CheckLength(absl::string_view what, absl::string_view text, size_t bytes_max);
absl::Status BadArgument(absl::string_view message);

// Any number of milliseconds from the wire, at most a year; and back, rounded down, never negative.
absl::Duration FromWireMs(uint64_t ms);
uint64_t ToWireMs(absl::Duration duration);

void SetVersion(v1::Version* version);
void SetHeader(Term term, v1::ResponseHeader* header);

// The caller as the core knows it; borrows from the header.
class WireCaller {
 public:
  enum class Touches { kApply, kIgnore };  // kIgnore: they were applied before
  explicit WireCaller(const v1::RequestHeader& header, Touches touches = Touches::kApply);
  WireCaller(const WireCaller&) = delete;
  WireCaller& operator=(const WireCaller&) = delete;

  const Caller& operator*() const { return caller_; }

 private:
  absl::InlinedVector<Touch, 16> touched_;
  Caller caller_;
};

using KeyViews = absl::InlinedVector<absl::string_view, 64>;
KeyViews ViewsOf(const google::protobuf::RepeatedPtrField<std::string>& keys);

Part FromProto(const v1::Part& part);

// Writes what stands in one response, field by field in order: replicas, and at its end the address
// of every node that they name, once each.
class PlaceWriter {
 public:
  PlaceWriter(const Core& core, WireWriter& out) : core_(core), out_(out) {}

  void Write(int field, const Replicas& replicas);
  // `elapsed`: since the request came. Leases go from there on the wire.
  void Write(int field, const Location& location, absl::Duration elapsed);
  void Write(int field, const Grant& grant, absl::Duration elapsed);
  void WriteNodes(int field) const;

 private:
  void Write(const Part& part);
  void Note(NodeId node);

  const Core& core_;
  WireWriter& out_;
  NodeId last_;
  absl::InlinedVector<NodeId, 8> nodes_;  // in order of appearance
  absl::flat_hash_set<uint32_t> seen_;
};

// Of the response that is being written: what there is one of, or seldom.
void WriteHeader(int field, Term term, WireWriter& out);
void WriteStatus(int field, const absl::Status& status, WireWriter& out);

void CopyToProto(const CopyCommand& command, Term term, v1::Command* out);

void AddressToProto(const NodeAddress& address, v1::NodeAddress* out);

}  // namespace moonpool::master
