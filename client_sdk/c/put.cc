// Putting.
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client_sdk/c/arguments.h"
#include "client_sdk/c/border.h"
#include "client_sdk/c/handles.h"
#include "client_sdk/c/options.h"
#include "client_sdk/c/results.h"
#include "common/status_macros.h"
#include "moonpool/c.h"

using moonpool::c_api::CheckGiven;
using moonpool::c_api::Enter;
using moonpool::c_api::EnterBatch;
using moonpool::c_api::Outcome;
using moonpool::c_api::ToItems;
using moonpool::c_api::ToKey;
using moonpool::c_api::ToOutcomes;
using moonpool::c_api::ToSdk;
using moonpool::c_api::ToValue;

int moonpool_put(moonpool_client* client, moonpool_bytes key, moonpool_bytes value,
                 const moonpool_put_options* options) {
  return Enter([&]() -> absl::Status {
    RETURN_IF_ERROR(CheckGiven("client", client));
    moonpool::PutItem item;
    ASSIGN_OR_RETURN(item.key, ToKey("key", key));
    ASSIGN_OR_RETURN(const moonpool::ConstBuffer bytes, ToValue("value", value));
    item.value = {bytes};
    ASSIGN_OR_RETURN(const moonpool::PutOptions taken, ToSdk(options));
    return client->client->Put(item, taken);
  });
}

int moonpool_put_many(moonpool_client* client, const moonpool_put_item* items, size_t count,
                      const moonpool_put_options* options, moonpool_result* results,
                      moonpool_errors** errors) {
  return EnterBatch(count, results, errors, [&]() -> absl::StatusOr<std::vector<Outcome>> {
    RETURN_IF_ERROR(CheckGiven("client", client));
    ASSIGN_OR_RETURN(const std::vector<moonpool::PutItem> taken, ToItems(items, count));
    ASSIGN_OR_RETURN(const moonpool::PutOptions put_options, ToSdk(options));
    return ToOutcomes(client->client->PutMany(taken, put_options));
  });
}
