// Asking about keys, and removing them.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client_sdk/c/arguments.h"
#include "client_sdk/c/border.h"
#include "client_sdk/c/handles.h"
#include "client_sdk/c/options.h"
#include "client_sdk/c/results.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "moonpool/c.h"

using moonpool::c_api::AddError;
using moonpool::c_api::CheckFillable;
using moonpool::c_api::CheckGiven;
using moonpool::c_api::Enter;
using moonpool::c_api::EnterBatch;
using moonpool::c_api::FillStruct;
using moonpool::c_api::Outcome;
using moonpool::c_api::TakeBack;
using moonpool::c_api::ToKey;
using moonpool::c_api::ToKeys;
using moonpool::c_api::ToOutcomes;
using moonpool::c_api::ToSdk;

int moonpool_exists(moonpool_client* client, const moonpool_bytes* keys, size_t count,
                    const moonpool_call_options* options, moonpool_result* results,
                    moonpool_errors** errors) {
  return EnterBatch(count, results, errors, [&]() -> absl::StatusOr<std::vector<Outcome>> {
    RETURN_IF_ERROR(CheckGiven("client", client));
    ASSIGN_OR_RETURN(const std::vector<std::string> names, ToKeys(keys, count));
    ASSIGN_OR_RETURN(const moonpool::CallOptions taken, ToSdk(options));
    return ToOutcomes(client->client->Exists(names, taken));
  });
}

int moonpool_describe(moonpool_client* client, const moonpool_bytes* keys, size_t count,
                      const moonpool_call_options* options, moonpool_result* results,
                      moonpool_errors** errors) {
  return EnterBatch(count, results, errors, [&]() -> absl::StatusOr<std::vector<Outcome>> {
    RETURN_IF_ERROR(CheckGiven("client", client));
    ASSIGN_OR_RETURN(const std::vector<std::string> names, ToKeys(keys, count));
    ASSIGN_OR_RETURN(const moonpool::CallOptions taken, ToSdk(options));
    std::vector<Outcome> outcomes;
    for (const auto& described : client->client->Describe(names, taken)) {
      outcomes.push_back(
          {.status = described.status(), .bytes = described.ok() ? described->size_bytes : 0});
    }
    return outcomes;
  });
}

int moonpool_remove(moonpool_client* client, const moonpool_bytes* keys, size_t count,
                    const moonpool_call_options* options, moonpool_result* results,
                    moonpool_errors** errors) {
  return EnterBatch(count, results, errors, [&]() -> absl::StatusOr<std::vector<Outcome>> {
    RETURN_IF_ERROR(CheckGiven("client", client));
    ASSIGN_OR_RETURN(const std::vector<std::string> names, ToKeys(keys, count));
    ASSIGN_OR_RETURN(const moonpool::CallOptions taken, ToSdk(options));
    return ToOutcomes(client->client->Remove(names, taken));
  });
}

namespace {

moonpool_prefix_match ToC(const moonpool::PrefixMatch& match) {
  return {.struct_size = sizeof(moonpool_prefix_match),
          .matched = match.matched,
          .held_ms = static_cast<uint64_t>(absl::ToInt64Milliseconds(match.held)),
          .miss_code = static_cast<int32_t>(match.miss.code()),
          .miss_reason = static_cast<int32_t>(moonpool::ReasonOf(match.miss))};
}

}  // namespace

int moonpool_match_prefix(moonpool_client* client, const moonpool_bytes* keys, size_t count,
                          const moonpool_match_options* options, moonpool_prefix_match* match,
                          uint64_t* sizes, moonpool_errors** errors) {
  if (errors != nullptr) *errors = nullptr;
  const int code = Enter([&]() -> absl::Status {
    RETURN_IF_ERROR(CheckFillable("moonpool_prefix_match", match));
    const moonpool_prefix_match nothing = {};
    FillStruct(&nothing, sizeof(nothing), match);
    RETURN_IF_ERROR(CheckGiven("client", client));
    ASSIGN_OR_RETURN(const std::vector<std::string> names, ToKeys(keys, count));
    if (sizes != nullptr) std::fill_n(sizes, count, 0);
    ASSIGN_OR_RETURN(const moonpool::MatchOptions taken, ToSdk(options));
    ASSIGN_OR_RETURN(const moonpool::PrefixMatch found, client->client->MatchPrefix(names, taken));
    AddError(found.matched, found.miss, errors);
    if (sizes != nullptr) std::copy(found.sizes.begin(), found.sizes.end(), sizes);
    const moonpool_prefix_match filled = ToC(found);
    FillStruct(&filled, sizeof(filled), match);
    return absl::OkStatus();
  });
  if (code != MOONPOOL_OK) TakeBack(errors);
  return code;
}

int moonpool_list_keys(moonpool_client* client, moonpool_bytes prefix,
                       const moonpool_list_options* options, moonpool_keys** keys) {
  return Enter([&]() -> absl::Status {
    RETURN_IF_ERROR(CheckGiven("keys", keys));
    *keys = nullptr;
    RETURN_IF_ERROR(CheckGiven("client", client));
    ASSIGN_OR_RETURN(const std::string wanted, ToKey("prefix", prefix));
    ASSIGN_OR_RETURN(const moonpool::ListOptions taken, ToSdk(options));
    ASSIGN_OR_RETURN(moonpool::KeyPage page, client->client->ListKeys(wanted, taken));
    *keys = new moonpool_keys(std::move(page));
    return absl::OkStatus();
  });
}

size_t moonpool_keys_count(const moonpool_keys* keys) {
  return keys == nullptr ? 0 : keys->page.keys.size();
}

moonpool_bytes moonpool_keys_at(const moonpool_keys* keys, size_t index) {
  if (index >= moonpool_keys_count(keys)) return {nullptr, 0};
  const std::string& key = keys->page.keys[index];
  return {key.data(), key.size()};
}

moonpool_bytes moonpool_keys_next(const moonpool_keys* keys) {
  if (keys == nullptr || keys->page.next.empty()) return {nullptr, 0};
  return {keys->page.next.data(), keys->page.next.size()};
}

void moonpool_keys_destroy(moonpool_keys* keys) { delete keys; }
