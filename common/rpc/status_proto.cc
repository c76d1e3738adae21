#include "common/rpc/status_proto.h"

#include <optional>

#include "common/error.h"

namespace moonpool {

void StatusToProto(const absl::Status& status, v1::Status* proto) {
  proto->Clear();
  if (status.ok()) return;
  proto->set_code(static_cast<int>(status.code()));
  proto->set_message(std::string(status.message()));
  const std::optional<ErrorDetail> detail = DetailOf(status);
  if (!detail.has_value()) return;
  v1::ErrorDetail* out = proto->mutable_detail();
  out->set_reason(static_cast<v1::ErrorReason>(static_cast<int>(detail->reason)));
  out->set_hint(detail->hint);
  out->set_key(detail->key);
  out->set_node(detail->node);
  out->set_retry_after_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(detail->retry_after)));
  out->set_leader(detail->leader);
}

absl::Status StatusFromProto(const v1::Status& proto) {
  if (proto.code() == 0) return absl::OkStatus();
  // A peer of another version may send a code that we do not know; it is an error all the same.
  const bool known = proto.code() > 0 && proto.code() <= 16;
  const absl::Status status(
      known ? static_cast<absl::StatusCode>(proto.code()) : absl::StatusCode::kUnknown,
      proto.message());
  if (!proto.has_detail()) return status;
  const v1::ErrorDetail& detail = proto.detail();
  return WithDetail(status,
                    ErrorDetail{.reason = ReasonFromNumber(static_cast<int>(detail.reason())),
                                .hint = detail.hint(),
                                .key = detail.key(),
                                .node = detail.node(),
                                .retry_after = DurationFromMs(detail.retry_after_ms()),
                                .leader = detail.leader()});
}

}  // namespace moonpool
