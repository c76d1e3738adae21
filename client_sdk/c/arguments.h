// Keys, values and buffers as C passes them, checked and turned into the SDK's. Values and buffers
// are borrowed, keys copied. All errors are INVALID_ARGUMENT with a message that names the
// argument.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "moonpool/c.h"
#include "moonpool/client.h"

namespace moonpool::c_api {

// `what` names the argument: "client".
absl::Status CheckGiven(absl::string_view what, const void* pointer);

// An empty key, and one that is too long, are taken: the SDK has something to say about those.
absl::StatusOr<std::string> ToKey(absl::string_view what, const moonpool_bytes& key);
absl::StatusOr<ConstBuffer> ToValue(absl::string_view what, const moonpool_bytes& value);
absl::StatusOr<MutableBuffer> ToBuffer(absl::string_view what, const moonpool_buffer& buffer);

// Of batches, whose `count` is at most MOONPOOL_BATCH_MAX.
absl::StatusOr<std::vector<std::string>> ToKeys(const moonpool_bytes* keys, size_t count);
absl::StatusOr<std::vector<PutItem>> ToItems(const moonpool_put_item* items, size_t count);
absl::StatusOr<std::vector<GetItem>> ToItems(const moonpool_get_item* items, size_t count);

}  // namespace moonpool::c_api
