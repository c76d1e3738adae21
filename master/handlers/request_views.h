// Requests about many keys that are read where they lie, without a message of each key. What they
// mean is what protobuf reads (common/wire/wire_reader.h says where they are stricter).
#pragma once

#include <google/protobuf/arena.h>

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/wire/wire_reader.h"
#include "master/core/commands.h"
#include "master/handlers/wire.h"
#include "moonpool/v1/master.pb.h"

namespace moonpool::master {

// What they have in common. Borrows the bytes.
class RequestView {
 public:
  RequestView(const RequestView&) = delete;
  RequestView& operator=(const RequestView&) = delete;

  // INVALID_ARGUMENT/BAD_ARGUMENT: the bytes are no such message.
  const absl::Status& status() const { return status_; }
  const v1::RequestHeader& header() const { return *header_; }

 protected:
  RequestView() : header_(google::protobuf::Arena::CreateMessage<v1::RequestHeader>(&arena_)) {}
  ~RequestView() = default;

  // Reads the header where it stands; `read(tag, reader)` all else.
  template <typename Read>
  void ReadFields(absl::string_view bytes, uint32_t header_tag, Read read);

 private:
  bool MergeHeader(absl::string_view bytes);
  void Refuse();

  alignas(8) char block_[1024];  // enough for a header that names a few touched objects
  google::protobuf::Arena arena_{block_, sizeof(block_)};
  v1::RequestHeader* const header_;
  absl::Status status_;
};

// A LocateRequest or a MatchPrefixRequest: both have the same fields, but for wait_for_writer.
class KeysRequest final : public RequestView {
 public:
  explicit KeysRequest(absl::string_view bytes);

  const KeyViews& keys() const { return keys_; }
  int batch() const { return static_cast<int>(keys_.size()); }
  absl::Duration lease() const { return FromWireMs(lease_ms_); }
  bool wait_for_writer() const { return wait_for_writer_; }

 private:
  KeyViews keys_;
  uint64_t lease_ms_ = 0;
  bool wait_for_writer_ = false;
};

class StartPutsView final : public RequestView {
 public:
  explicit StartPutsView(absl::string_view bytes);

  using Puts = absl::InlinedVector<PutKey, 64>;
  const Puts& puts() const { return puts_; }
  int batch() const { return static_cast<int>(puts_.size()); }
  uint64_t request_id() const { return request_id_; }
  uint32_t replicas() const { return replicas_; }
  uint32_t min_replicas() const { return min_replicas_; }
  bool wait_for_space() const { return wait_for_space_; }
  bool wait_for_writer() const { return wait_for_writer_; }

 private:
  Puts puts_;
  uint64_t request_id_ = 0;
  uint32_t replicas_ = 0;
  uint32_t min_replicas_ = 0;
  bool wait_for_space_ = false;
  bool wait_for_writer_ = false;
};

}  // namespace moonpool::master
