#include "master/core/namespace_table.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/types.h"

namespace moonpool::master {
namespace {

constexpr uint32_t kMost = 0xffff;  // a NamespaceId has 16 bits

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '/' ||
         c == '-' || c == ':' || c == '@' || c == '+';
}

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNamespaceBytes &&
         std::all_of(name.begin(), name.end(), IsNameCharacter);
}

absl::Status Unknown(absl::string_view name) {
  return MakeError(
      absl::StatusCode::kNotFound, ErrorReason::kNamespaceUnknown,
      absl::StrCat("no namespace \"", absl::CHexEscape(name), "\""),
      {.hint = "`moonpool status` lists those that there are; a client makes one by opening "
               "it with a fingerprint"});
}

absl::Status Mismatch(absl::string_view name, absl::string_view theirs, absl::string_view ours) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition, ErrorReason::kFingerprintMismatch,
      absl::StrCat("namespace \"", name, "\" has the fingerprint \"", absl::CHexEscape(ours),
                   "\" and was opened with \"", absl::CHexEscape(theirs), "\""),
      {.hint = "give each layout (model, dtype, page size, parallelism) its own "
               "namespace"});
}

}  // namespace

NamespaceTable::NamespaceTable(uint32_t max_namespaces)
    : max_(std::clamp<uint32_t>(max_namespaces, 1, kMost)) {
  Add(kDefault);
}

absl::StatusOr<std::string> NamespaceTable::Open(absl::string_view name,
                                                 absl::string_view fingerprint) {
  if (name.empty()) name = kDefault;
  const auto known = by_name_.find(name);
  if (known != by_name_.end()) {
    NamespaceRecord& record = records_[known->second];
    if (fingerprint.empty() || fingerprint == record.fingerprint) return record.fingerprint;
    if (!record.fingerprint.empty() || name == kDefault) {
      return Mismatch(name, fingerprint, record.fingerprint);
    }
    record.fingerprint = std::string(fingerprint);  // nodes brought it without one
    return record.fingerprint;
  }
  if (!IsName(name)) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                     absl::StrCat("\"", absl::CHexEscape(name), "\" is no name for a namespace"),
                     {.hint = "1 to 255 letters, digits and any of . _ / - : @ +"});
  }
  if (fingerprint.empty()) return Unknown(name);
  const std::optional<NamespaceId> id = Add(name);
  if (!id.has_value()) {
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                     absl::StrCat("there are ", records_.size(), " namespaces, the most allowed"),
                     {.hint = "raise max_namespaces"});
  }
  records_[*id].fingerprint = std::string(fingerprint);
  return std::string(fingerprint);
}

void NamespaceTable::Restore(const DurableNamespace& known) {
  if (!IsName(known.name) || by_name_.contains(known.name) || records_.size() >= kMost) return;
  max_ = std::max(max_, static_cast<uint32_t>(records_.size()) + 1);
  if (const std::optional<NamespaceId> id = Add(known.name)) {
    records_[*id].fingerprint = known.fingerprint;
    records_[*id].is_saved = true;
  }
}

absl::StatusOr<NamespaceId> NamespaceTable::Resolve(absl::string_view name) const {
  if (name.empty()) return NamespaceId{0};
  const auto known = by_name_.find(name);
  if (known == by_name_.end()) return Unknown(name);
  return known->second;
}

std::optional<NamespaceId> NamespaceTable::FindOrAdd(absl::string_view name) {
  if (name.empty()) return NamespaceId{0};
  const auto known = by_name_.find(name);
  if (known != by_name_.end()) return known->second;
  return IsName(name) ? Add(name) : std::nullopt;
}

std::optional<NamespaceId> NamespaceTable::Add(absl::string_view name) {
  if (records_.size() >= max_) return std::nullopt;
  const auto id = static_cast<NamespaceId>(records_.size());
  records_.push_back(NamespaceRecord{.name = std::string(name)});
  by_name_.emplace(name, id);
  return id;
}

}  // namespace moonpool::master
