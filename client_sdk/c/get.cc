// Getting: into buffers, into memory that is allocated here, and as views.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
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

using moonpool::ErrorReason;
using moonpool::MakeError;
using moonpool::MutableBuffer;
using moonpool::c_api::CheckGiven;
using moonpool::c_api::Enter;
using moonpool::c_api::EnterBatch;
using moonpool::c_api::Outcome;
using moonpool::c_api::ToBuffer;
using moonpool::c_api::ToItems;
using moonpool::c_api::ToKey;
using moonpool::c_api::ToOutcomes;
using moonpool::c_api::ToSdk;

int moonpool_get(moonpool_client* client, moonpool_bytes key, void* into, size_t into_size,
                 const moonpool_get_options* options, size_t* bytes) {
  if (bytes != nullptr) *bytes = 0;
  return Enter([&]() -> absl::Status {
    RETURN_IF_ERROR(CheckGiven("client", client));
    ASSIGN_OR_RETURN(const std::string name, ToKey("key", key));
    ASSIGN_OR_RETURN(const MutableBuffer buffer, ToBuffer("into", {into, into_size}));
    ASSIGN_OR_RETURN(const moonpool::GetOptions taken, ToSdk(options));
    ASSIGN_OR_RETURN(const size_t read, client->client->Get(name, buffer, taken));
    if (bytes != nullptr) *bytes = read;
    return absl::OkStatus();
  });
}

int moonpool_get_allocated(moonpool_client* client, moonpool_bytes key,
                           const moonpool_get_options* options, void** value, size_t* bytes) {
  if (value != nullptr) *value = nullptr;
  if (bytes != nullptr) *bytes = 0;
  return Enter([&]() -> absl::Status {
    RETURN_IF_ERROR(CheckGiven("client", client));
    RETURN_IF_ERROR(CheckGiven("value", value));
    RETURN_IF_ERROR(CheckGiven("bytes", bytes));
    ASSIGN_OR_RETURN(const std::string name, ToKey("key", key));
    ASSIGN_OR_RETURN(const moonpool::GetOptions taken, ToSdk(options));
    std::unique_ptr<void, decltype(&std::free)> memory(nullptr, &std::free);
    const auto allocate = [&memory](size_t, uint64_t size) -> absl::StatusOr<MutableBuffer> {
      memory.reset(std::malloc(std::max<uint64_t>(1, size)));
      if (memory != nullptr) return MutableBuffer(static_cast<std::byte*>(memory.get()), size);
      return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                       "out of memory");
    };
    const absl::StatusOr<size_t> read =
        client->client->GetMany({&name, 1}, allocate, taken).front();
    if (!read.ok()) return read.status();
    *value = memory.release();
    *bytes = *read;
    return absl::OkStatus();
  });
}

void moonpool_free(void* value) { std::free(value); }

int moonpool_get_many(moonpool_client* client, const moonpool_get_item* items, size_t count,
                      const moonpool_get_options* options, moonpool_result* results,
                      moonpool_errors** errors) {
  return EnterBatch(count, results, errors, [&]() -> absl::StatusOr<std::vector<Outcome>> {
    RETURN_IF_ERROR(CheckGiven("client", client));
    ASSIGN_OR_RETURN(const std::vector<moonpool::GetItem> taken, ToItems(items, count));
    ASSIGN_OR_RETURN(const moonpool::GetOptions get_options, ToSdk(options));
    return ToOutcomes(client->client->GetMany(taken, get_options));
  });
}

int moonpool_get_view(moonpool_client* client, moonpool_bytes key,
                      const moonpool_get_options* options, moonpool_view** view) {
  return Enter([&]() -> absl::Status {
    RETURN_IF_ERROR(CheckGiven("view", view));
    *view = nullptr;
    RETURN_IF_ERROR(CheckGiven("client", client));
    ASSIGN_OR_RETURN(const std::string name, ToKey("key", key));
    ASSIGN_OR_RETURN(const moonpool::GetOptions taken, ToSdk(options));
    ASSIGN_OR_RETURN(moonpool::View opened, client->client->GetView(name, taken));
    *view = new moonpool_view(std::move(opened));
    return absl::OkStatus();
  });
}

size_t moonpool_view_piece_count(const moonpool_view* view) {
  return view == nullptr ? 0 : view->view.pieces().size();
}

moonpool_bytes moonpool_view_piece(const moonpool_view* view, size_t index) {
  if (index >= moonpool_view_piece_count(view)) return {nullptr, 0};
  const moonpool::ConstBuffer piece = view->view.pieces()[index];
  return {piece.data(), piece.size()};
}

uint64_t moonpool_view_size(const moonpool_view* view) {
  return view == nullptr ? 0 : view->view.size_bytes();
}

int moonpool_view_valid(const moonpool_view* view) {
  return view != nullptr && view->view.valid() ? 1 : 0;
}

void moonpool_view_release(moonpool_view* view) { delete view; }
