// Structs that begin with their size, so that programs and libraries of different ages fit: what a
// caller's header did not know has its default, and what this library does not know is refused.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "moonpool/c.h"
#include "moonpool/client.h"

namespace moonpool::c_api {

// The struct of `known_bytes` bytes that this library knows, from the caller's of another size.
// `type` is its name, for the message. Not to be called with NULL.
absl::Status TakeStruct(absl::string_view type, const void* given, void* taken, size_t known_bytes);

// Before the work whose outcome it will have: that Fill can do it.
absl::Status CheckFillable(absl::string_view type, const void* given);

// The other way: as much of `filled` as the caller's struct has room for, its size aside; what it
// has beyond is 0.
void FillStruct(const void* filled, size_t known_bytes, void* given);

// The options of the SDK; NULL is all defaults, but for those of a client.
absl::StatusOr<ClientOptions> ToSdk(const moonpool_client_options* given);
absl::StatusOr<CallOptions> ToSdk(const moonpool_call_options* given);
absl::StatusOr<PutOptions> ToSdk(const moonpool_put_options* given);
absl::StatusOr<GetOptions> ToSdk(const moonpool_get_options* given);
absl::StatusOr<MatchOptions> ToSdk(const moonpool_match_options* given);
absl::StatusOr<ListOptions> ToSdk(const moonpool_list_options* given);

}  // namespace moonpool::c_api
