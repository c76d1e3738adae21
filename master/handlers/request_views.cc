#include "master/handlers/request_views.h"

#include "common/rpc/merge_message.h"

namespace moonpool::master {
namespace {

bool ReadPut(absl::string_view bytes, PutKey& put) {
  using Wire = v1::PutKey;
  WireReader reader(bytes);
  while (const uint32_t tag = reader.Next()) {
    switch (tag) {
      case BytesTag(Wire::kKeyFieldNumber): put.key = reader.Bytes(); break;
      case VarintTag(Wire::kSizeBytesFieldNumber): put.size_bytes = reader.Varint(); break;
      case BytesTag(Wire::kParentFieldNumber): put.parent = reader.Bytes(); break;
      default: reader.Skip();
    }
  }
  return reader.ok();
}

}  // namespace

bool RequestView::MergeHeader(absl::string_view bytes) { return MergeMessage(bytes, *header_); }

void RequestView::Refuse() {
  status_ = BadArgument("the request is no message that this master can read");
}

template <typename Read>
void RequestView::ReadFields(absl::string_view bytes, uint32_t header_tag, Read read) {
  WireReader reader(bytes);
  bool is_ok = true;
  while (const uint32_t tag = reader.Next()) {
    is_ok = (tag == header_tag ? MergeHeader(reader.Bytes()) : read(tag, reader)) && is_ok;
  }
  if (!is_ok || !reader.ok()) Refuse();
}

KeysRequest::KeysRequest(absl::string_view bytes) {
  using Wire = v1::LocateRequest;
  using Other = v1::MatchPrefixRequest;
  static_assert(BytesTag(Wire::kHeaderFieldNumber) == BytesTag(Other::kHeaderFieldNumber));
  static_assert(BytesTag(Wire::kKeysFieldNumber) == BytesTag(Other::kKeysFieldNumber));
  static_assert(VarintTag(Wire::kLeaseMsFieldNumber) == VarintTag(Other::kLeaseMsFieldNumber));
  ReadFields(bytes, BytesTag(Wire::kHeaderFieldNumber), [this](uint32_t tag, WireReader& reader) {
    switch (tag) {
      case BytesTag(Wire::kKeysFieldNumber): keys_.push_back(reader.Bytes()); break;
      case VarintTag(Wire::kLeaseMsFieldNumber): lease_ms_ = reader.Varint(); break;
      case VarintTag(Wire::kWaitForWriterFieldNumber):
        wait_for_writer_ = reader.Varint() != 0;
        break;
      default: reader.Skip();
    }
    return true;
  });
}

StartPutsView::StartPutsView(absl::string_view bytes) {
  using Wire = v1::StartPutsRequest;
  ReadFields(bytes, BytesTag(Wire::kHeaderFieldNumber), [this](uint32_t tag, WireReader& reader) {
    const auto small = [&reader] { return static_cast<uint32_t>(reader.Varint()); };
    switch (tag) {
      case Fixed64Tag(Wire::kRequestIdFieldNumber): request_id_ = reader.Fixed64(); break;
      case BytesTag(Wire::kPutsFieldNumber): return ReadPut(reader.Bytes(), puts_.emplace_back());
      case VarintTag(Wire::kReplicasFieldNumber): replicas_ = small(); break;
      case VarintTag(Wire::kMinReplicasFieldNumber): min_replicas_ = small(); break;
      case VarintTag(Wire::kWaitForSpaceFieldNumber): wait_for_space_ = reader.Varint() != 0; break;
      case VarintTag(Wire::kWaitForWriterFieldNumber):
        wait_for_writer_ = reader.Varint() != 0;
        break;
      default: reader.Skip();
    }
    return true;
  });
}

}  // namespace moonpool::master
