// Clients, what they have counted, and how calls are cancelled.
#include "absl/status/status.h"
#include "client_sdk/c/arguments.h"
#include "client_sdk/c/border.h"
#include "client_sdk/c/handles.h"
#include "client_sdk/c/options.h"
#include "common/status_macros.h"
#include "moonpool/c.h"

using moonpool::c_api::CheckFillable;
using moonpool::c_api::CheckGiven;
using moonpool::c_api::Enter;
using moonpool::c_api::FillStruct;
using moonpool::c_api::ToSdk;

int moonpool_connect(const moonpool_client_options* options, moonpool_client** client) {
  return Enter([&]() -> absl::Status {
    RETURN_IF_ERROR(CheckGiven("client", client));
    *client = nullptr;
    ASSIGN_OR_RETURN(moonpool::ClientOptions taken, ToSdk(options));
    ASSIGN_OR_RETURN(std::unique_ptr<moonpool::Client> connected,
                     moonpool::Client::Connect(std::move(taken)));
    *client = new moonpool_client(std::move(connected));
    return absl::OkStatus();
  });
}

void moonpool_close(moonpool_client* client) { delete client; }

int moonpool_get_stats(const moonpool_client* client, moonpool_stats* stats) {
  return Enter([&]() -> absl::Status {
    RETURN_IF_ERROR(CheckFillable("moonpool_stats", stats));
    RETURN_IF_ERROR(CheckGiven("client", client));
    const moonpool::ClientStats counted = client->client->stats();
    const moonpool_stats filled = {.struct_size = sizeof(filled),
                                   .gets = counted.gets,
                                   .hits = counted.hits,
                                   .misses = counted.misses,
                                   .get_bytes = counted.get_bytes,
                                   .puts = counted.puts,
                                   .put_bytes = counted.put_bytes,
                                   .location_cache_hits = counted.location_cache_hits,
                                   .master_calls = counted.master_calls,
                                   .relocated = counted.relocated,
                                   .failovers = counted.failovers,
                                   .checksum_failures = counted.checksum_failures};
    FillStruct(&filled, sizeof(filled), stats);
    return absl::OkStatus();
  });
}

int moonpool_cancel_create(moonpool_cancel** cancel) {
  return Enter([&]() -> absl::Status {
    RETURN_IF_ERROR(CheckGiven("cancel", cancel));
    *cancel = nullptr;
    *cancel = new moonpool_cancel;
    return absl::OkStatus();
  });
}

int moonpool_cancel_calls(moonpool_cancel* cancel) {
  return Enter([&]() -> absl::Status {
    RETURN_IF_ERROR(CheckGiven("cancel", cancel));
    cancel->source.Cancel();
    return absl::OkStatus();
  });
}

void moonpool_cancel_destroy(moonpool_cancel* cancel) { delete cancel; }
