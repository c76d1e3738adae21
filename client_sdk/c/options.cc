#include "client_sdk/c/options.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client_sdk/c/arguments.h"
#include "client_sdk/c/border.h"
#include "client_sdk/c/handles.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::c_api {
namespace {

// More than any version will need: a size beyond it is one that nobody has set.
constexpr size_t kStructBytesMax = 4096;
constexpr size_t kTrustedUidsMax = 4096;

// No holes: the bytes that a later version names are those behind the last field.
static_assert(sizeof(moonpool_client_options) == 14 * 8);
static_assert(sizeof(moonpool_call_options) == 3 * 8);
static_assert(sizeof(moonpool_put_options) == 5 * 8);
static_assert(sizeof(moonpool_get_options) == 4 * 8);
static_assert(sizeof(moonpool_match_options) == 4 * 8);
static_assert(sizeof(moonpool_list_options) == 6 * 8);
static_assert(sizeof(moonpool_stats) == 12 * 8);
static_assert(sizeof(moonpool_prefix_match) == 4 * 8);

absl::StatusOr<size_t> StructSizeOf(absl::string_view type, const void* given) {
  size_t bytes = 0;
  std::memcpy(&bytes, given, sizeof(bytes));
  // All of them have a size_t, so no version has another size.
  const bool is_size =
      bytes >= sizeof(size_t) && bytes <= kStructBytesMax && bytes % alignof(size_t) == 0;
  if (is_size) return bytes;
  return WrongUse(
      absl::StrCat(type, ".struct_size is ", bytes, ": it has to be sizeof(", type, ")"));
}

// Copies the options that were given over those that are all 0.
template <typename Options>
absl::StatusOr<Options> Take(absl::string_view type, const Options* given) {
  Options taken = {};
  if (given != nullptr) RETURN_IF_ERROR(TakeStruct(type, given, &taken, sizeof(taken)));
  return taken;
}

absl::StatusOr<bool> FlagOf(absl::string_view name, uint32_t value) {
  if (value <= 1) return value == 1;
  return WrongUse(absl::StrCat(name, " is ", value, ": it has to be 0 or 1"));
}

std::string TextOf(const char* text) { return text == nullptr ? "" : text; }

CallOptions CallOf(uint64_t timeout_ms, const moonpool_cancel* cancel) {
  CallOptions call = {.timeout = DurationFromMs(timeout_ms)};
  if (cancel != nullptr) call.cancel = cancel->source.token();
  return call;
}

absl::StatusOr<Path> PathOf(uint32_t path) {
  switch (path) {
    case MOONPOOL_PATH_AUTO: return Path::kAuto;
    case MOONPOOL_PATH_TCP: return Path::kTcp;
    case MOONPOOL_PATH_SHM: return Path::kShm;
    default: return WrongUse(absl::StrCat("path is ", path, ": no enum moonpool_path"));
  }
}

}  // namespace

absl::Status TakeStruct(absl::string_view type, const void* given, void* taken,
                        size_t known_bytes) {
  ASSIGN_OR_RETURN(const size_t given_bytes, StructSizeOf(type, given));
  const auto* const bytes = static_cast<const char*>(given);
  const bool is_known = std::all_of(bytes + std::min(known_bytes, given_bytes), bytes + given_bytes,
                                    [](char byte) { return byte == 0; });
  if (!is_known) {
    return WrongUse(absl::StrCat(type, " has fields behind its first ", known_bytes,
                                 " bytes that this version does not know (", moonpool_version(),
                                 "), and they are not 0"));
  }
  std::memcpy(taken, given, std::min(known_bytes, given_bytes));
  return absl::OkStatus();
}

absl::Status CheckFillable(absl::string_view type, const void* given) {
  if (given == nullptr) return WrongUse(absl::StrCat("the ", type, " is NULL"));
  return StructSizeOf(type, given).status();
}

void FillStruct(const void* filled, size_t known_bytes, void* given) {
  size_t given_bytes = 0;
  std::memcpy(&given_bytes, given, sizeof(given_bytes));
  const size_t both = std::min(known_bytes, given_bytes);
  const auto* const from = static_cast<const char*>(filled);
  auto* const to = static_cast<char*>(given);
  std::memcpy(to + sizeof(size_t), from + sizeof(size_t), both - sizeof(size_t));
  std::memset(to + both, 0, given_bytes - both);
}

absl::StatusOr<ClientOptions> ToSdk(const moonpool_client_options* given) {
  if (given == nullptr) return WrongUse("options is NULL: a client needs to know its masters");
  ASSIGN_OR_RETURN(const moonpool_client_options taken, Take("moonpool_client_options", given));
  if (taken.masters == nullptr) return WrongUse("masters is NULL");
  ClientOptions options;
  options.masters = absl::StrSplit(taken.masters, ',');
  if (taken.name_space != nullptr) options.name_space = taken.name_space;
  options.fingerprint = TextOf(taken.fingerprint);
  if (taken.timeout_ms != 0) options.timeout = DurationFromMs(taken.timeout_ms);
  ASSIGN_OR_RETURN(options.path, PathOf(taken.path));
  ASSIGN_OR_RETURN(const bool no_verify, FlagOf("no_verify", taken.no_verify));
  options.verify = !no_verify;
  ASSIGN_OR_RETURN(const bool no_wait, FlagOf("no_wait_for_master", taken.no_wait_for_master));
  options.wait_for_master = !no_wait;
  if (taken.tcp_streams > 64) return WrongUse("tcp_streams is not in 1 to 64, and not 0");
  if (taken.tcp_streams != 0) options.tcp_streams = static_cast<int>(taken.tcp_streams);
  if (taken.location_cache_entries != 0) {
    options.location_cache_entries = taken.location_cache_entries;
  }
  options.async_threads = 1;  // there are no asynchronous forms here
  options.tcp_congestion_control = TextOf(taken.tcp_congestion_control);
  options.host_id = TextOf(taken.host_id);
  if (taken.trusted_uid_count > kTrustedUidsMax) return WrongUse("too many trusted_uids");
  if (taken.trusted_uid_count > 0 && taken.trusted_uids == nullptr) {
    return WrongUse("trusted_uids is NULL, and trusted_uid_count is not 0");
  }
  options.trusted_uids.assign(taken.trusted_uids, taken.trusted_uids + taken.trusted_uid_count);
  if (taken.on_warning != nullptr) {
    options.on_warning = [on_warning = taken.on_warning,
                          context = taken.warning_context](absl::string_view line) {
      on_warning(context, std::string(line).c_str());
    };
  }
  return options;
}

absl::StatusOr<CallOptions> ToSdk(const moonpool_call_options* given) {
  ASSIGN_OR_RETURN(const moonpool_call_options taken, Take("moonpool_call_options", given));
  return CallOf(taken.timeout_ms, taken.cancel);
}

absl::StatusOr<PutOptions> ToSdk(const moonpool_put_options* given) {
  ASSIGN_OR_RETURN(const moonpool_put_options taken, Take("moonpool_put_options", given));
  PutOptions options = {.call = CallOf(taken.timeout_ms, taken.cancel)};
  if (taken.replicas != 0) options.replicas = taken.replicas;
  options.min_replicas = taken.min_replicas;
  ASSIGN_OR_RETURN(const bool no_wait, FlagOf("no_wait_for_space", taken.no_wait_for_space));
  options.wait_for_space = !no_wait;
  ASSIGN_OR_RETURN(options.wait_for_writer, FlagOf("wait_for_writer", taken.wait_for_writer));
  return options;
}

absl::StatusOr<GetOptions> ToSdk(const moonpool_get_options* given) {
  ASSIGN_OR_RETURN(const moonpool_get_options taken, Take("moonpool_get_options", given));
  GetOptions options = {.call = CallOf(taken.timeout_ms, taken.cancel)};
  ASSIGN_OR_RETURN(const bool no_verify, FlagOf("no_verify", taken.no_verify));
  options.verify = !no_verify;
  if (taken.reserved != 0) return WrongUse("moonpool_get_options.reserved is not 0");
  return options;
}

absl::StatusOr<MatchOptions> ToSdk(const moonpool_match_options* given) {
  ASSIGN_OR_RETURN(const moonpool_match_options taken, Take("moonpool_match_options", given));
  return MatchOptions{.call = CallOf(taken.timeout_ms, taken.cancel),
                      .hold = DurationFromMs(taken.hold_ms)};
}

absl::StatusOr<ListOptions> ToSdk(const moonpool_list_options* given) {
  ASSIGN_OR_RETURN(const moonpool_list_options taken, Take("moonpool_list_options", given));
  ListOptions options = {.call = CallOf(taken.timeout_ms, taken.cancel)};
  if (taken.limit != 0) options.limit = taken.limit;
  ASSIGN_OR_RETURN(options.after, ToKey("after", taken.after));
  return options;
}

}  // namespace moonpool::c_api
