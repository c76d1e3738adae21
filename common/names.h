// What the names may look like that people and other programs give. Checked where they enter: all
// of them end in proto `string` fields, where one byte that is no UTF-8 makes the whole message
// unreadable, and in logs and on terminals.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace moonpool {

// Of a namespace: 1 to kMaxNamespaceBytes letters, digits and any of . _ / - : @ +
bool IsNamespaceName(absl::string_view text);
// Of a node: 1 to kMaxLabelBytes printable ASCII characters without a space.
bool IsNodeName(absl::string_view text);
// Any other: a rack, a host id, a layout fingerprint, the path of a socket. Valid UTF-8 without
// control characters, at most kMaxLabelBytes; may be empty.
bool IsLabel(absl::string_view text);

// What a part says of where it belongs: the name of its namespace and, where that has one, the
// layout fingerprint, so that whoever learns of the namespace from the part learns both. Written
// as one text of at most kMaxNamespaceBytes: "name", or "name" 0x1f "fingerprint".
struct PartNamespace {
  absl::string_view name;         // empty: the default one
  absl::string_view fingerprint;  // empty: none
};
std::string JoinPartNamespace(const PartNamespace& parts);
// Borrows `text`. nullopt: no such text.
std::optional<PartNamespace> SplitPartNamespace(absl::string_view text);

// INVALID_ARGUMENT/BAD_ARGUMENT: what was given, escaped, and what is allowed.
absl::Status CheckNamespaceName(absl::string_view text);
absl::Status CheckPartNamespace(const PartNamespace& parts);
absl::Status CheckNodeName(absl::string_view text);
// `what` stands before it: "--rack", "fingerprint".
absl::Status CheckLabel(absl::string_view what, absl::string_view text);

}  // namespace moonpool
