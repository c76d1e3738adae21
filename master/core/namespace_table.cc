#include "master/core/namespace_table.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/names.h"
#include "common/status_macros.h"
#include "master/core/options.h"

namespace moonpool::master {
namespace {

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
    : max_(std::clamp<uint32_t>(max_namespaces, 1, kMaxNamespaces)) {
  Add(kDefault);
}

absl::StatusOr<std::string> NamespaceTable::Open(absl::string_view name,
                                                 absl::string_view fingerprint) {
  if (name.empty()) name = kDefault;
  const auto known = by_name_.find(name);
  if (known != by_name_.end()) {
    NamespaceRecord& record = records_[known->second];
    if (fingerprint.empty() || fingerprint == record.fingerprint) return record.fingerprint;
    // What is stored without one is of some other layout.
    if (!record.fingerprint.empty() || name == kDefault || record.objects > 0) {
      return Mismatch(name, fingerprint, record.fingerprint);
    }
    RETURN_IF_ERROR(CheckPartNamespace({name, fingerprint}));
    record.fingerprint = std::string(fingerprint);  // a node brought it without one
    return record.fingerprint;
  }
  RETURN_IF_ERROR(CheckPartNamespace({name, fingerprint}));
  if (fingerprint.empty()) return Unknown(name);
  const std::optional<NamespaceId> id = Add(name, fingerprint);
  if (!id.has_value()) {
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                     absl::StrCat("there are ", records_.size(), " namespaces, the most allowed"),
                     {.hint = "raise the master's --limit-namespaces"});
  }
  return std::string(fingerprint);
}

void NamespaceTable::Restore(const DurableNamespace& known) {
  const bool is_good = CheckPartNamespace({known.name, known.fingerprint}).ok();
  if (!is_good || by_name_.contains(known.name) || records_.size() >= kMaxNamespaces) return;
  max_ = std::max(max_, static_cast<uint32_t>(records_.size()) + 1);
  if (const std::optional<NamespaceId> id = Add(known.name, known.fingerprint)) {
    records_[*id].is_saved = true;
  }
}

absl::StatusOr<NamespaceId> NamespaceTable::Resolve(absl::string_view name) const {
  if (name.empty()) return NamespaceId{0};
  const auto known = by_name_.find(name);
  if (known == by_name_.end()) return Unknown(name);
  return known->second;
}

std::optional<NamespaceTable::Home> NamespaceTable::Find(absl::string_view part_namespace) const {
  const std::optional<PartNamespace> parts = SplitPartNamespace(part_namespace);
  if (!parts.has_value()) return std::nullopt;
  const auto known = by_name_.find(parts->name.empty() ? kDefault : parts->name);
  if (known == by_name_.end()) return std::nullopt;
  return Home{.id = known->second,
              .is_of_its_layout = records_[known->second].fingerprint == parts->fingerprint};
}

std::optional<NamespaceTable::Home> NamespaceTable::FindOrAdd(absl::string_view part_namespace) {
  if (const std::optional<Home> known = Find(part_namespace)) return known;
  const std::optional<PartNamespace> parts = SplitPartNamespace(part_namespace);
  if (!parts.has_value()) return std::nullopt;
  const std::optional<NamespaceId> added = Add(parts->name, parts->fingerprint);
  return added.has_value() ? std::optional(Home{.id = *added}) : std::nullopt;
}

std::optional<NamespaceId> NamespaceTable::Add(absl::string_view name,
                                               absl::string_view fingerprint) {
  if (records_.size() >= max_) return std::nullopt;
  const auto id = static_cast<NamespaceId>(records_.size());
  records_.push_back(
      NamespaceRecord{.name = std::string(name), .fingerprint = std::string(fingerprint)});
  by_name_.emplace(name, id);
  return id;
}

}  // namespace moonpool::master
