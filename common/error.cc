#include "common/error.h"

#include <cctype>
#include <limits>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "moonpool/v1/common.pb.h"

namespace moonpool {
namespace {

constexpr absl::string_view kDetailUrl = "type.moonpool.dev/moonpool.v1.ErrorDetail";

}  // namespace

absl::string_view ReasonName(ErrorReason reason) {
  return v1::ErrorReason_Name(static_cast<v1::ErrorReason>(static_cast<int>(reason)));
}

ErrorReason ReasonFromNumber(int number) {
  return v1::ErrorReason_IsValid(number) ? static_cast<ErrorReason>(number)
                                         : ErrorReason::kUnspecified;
}

absl::Duration DurationFromMs(uint64_t ms) {
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  return ms > kMax ? absl::InfiniteDuration() : absl::Milliseconds(static_cast<int64_t>(ms));
}

absl::Status WithDetail(absl::Status status, const ErrorDetail& detail) {
  if (status.ok()) return status;
  v1::ErrorDetail proto;
  proto.set_reason(static_cast<v1::ErrorReason>(static_cast<int>(detail.reason)));
  proto.set_hint(detail.hint);
  proto.set_key(detail.key);
  proto.set_node(detail.node);
  proto.set_retry_after_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(detail.retry_after)));
  proto.set_leader(detail.leader);
  status.SetPayload(kDetailUrl, absl::Cord(proto.SerializeAsString()));
  return status;
}

absl::Status MakeError(absl::StatusCode code, ErrorReason reason, absl::string_view message,
                       ErrorExtras extras) {
  return WithDetail(absl::Status(code, message), ErrorDetail{.reason = reason,
                                                             .hint = std::move(extras.hint),
                                                             .key = std::move(extras.key),
                                                             .node = std::move(extras.node),
                                                             .retry_after = extras.retry_after,
                                                             .leader = std::move(extras.leader)});
}

std::optional<ErrorDetail> DetailOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kDetailUrl);
  if (!payload.has_value()) return std::nullopt;
  v1::ErrorDetail proto;
  if (!proto.ParseFromString(std::string(*payload))) return std::nullopt;
  return ErrorDetail{.reason = ReasonFromNumber(static_cast<int>(proto.reason())),
                     .hint = proto.hint(),
                     .key = proto.key(),
                     .node = proto.node(),
                     .retry_after = DurationFromMs(proto.retry_after_ms()),
                     .leader = proto.leader()};
}

ErrorReason ReasonOf(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = DetailOf(status);
  return detail.has_value() ? detail->reason : ErrorReason::kUnspecified;
}

absl::Status Annotate(absl::Status status, absl::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&annotated](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

std::string Describe(const absl::Status& status) {
  if (status.ok()) return "OK";
  std::string text = absl::StatusCodeToString(status.code());
  const std::optional<ErrorDetail> detail = DetailOf(status);
  // Some reasons say what the code says.
  if (detail.has_value() && detail->reason != ErrorReason::kUnspecified &&
      ReasonName(detail->reason) != text) {
    absl::StrAppend(&text, " (", ReasonName(detail->reason), ")");
  }
  absl::StrAppend(&text, ": ", status.message());
  const std::string key = detail.has_value() ? absl::CHexEscape(detail->key) : "";
  if (!key.empty() && !absl::StrContains(status.message(), absl::StrCat("key \"", key, "\""))) {
    absl::StrAppend(&text, " [key ", key, "]");
  }
  if (detail.has_value() && !detail->node.empty()) {
    absl::StrAppend(&text, " [node ", detail->node, "]");
  }
  if (detail.has_value() && !detail->hint.empty()) absl::StrAppend(&text, "; ", detail->hint);
  return text;
}

}  // namespace moonpool
