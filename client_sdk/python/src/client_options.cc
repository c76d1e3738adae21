#include "client_sdk/python/src/client_options.h"

#include <pybind11/stl.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "client_sdk/python/src/errors.h"
#include "client_sdk/python/src/gil.h"
#include "common/error.h"

namespace moonpool::python {

namespace {

void RequireThreadsOfGrpc() {
  static const int forks_at_first = ForkCount();
  if (ForkCount() == forks_at_first) return;
  Raise(MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
                  "this process was forked from one that had made a client",
                  {.hint = "make clients after the fork alone, or start processes with "
                           "multiprocessing's \"spawn\""}));
}

Path PathOf(const std::string& name) {
  if (name == "auto") return Path::kAuto;
  if (name == "tcp") return Path::kTcp;
  if (name == "shm") return Path::kShm;
  RaiseInvalid(absl::StrCat("path is \"", name, "\""), "auto, tcp or shm");
}

}  // namespace

ClientOptions TakeClientOptions(Keywords& keywords) {
  ClientOptions options;
  std::string path = "auto";
  keywords.Take("masters", &options.masters);
  keywords.Take("namespace", &options.name_space);
  keywords.Take("fingerprint", &options.fingerprint);
  keywords.Take("path", &path);
  keywords.Take("verify", &options.verify);
  keywords.TakeSeconds("timeout", &options.timeout);
  keywords.Take("wait_for_master", &options.wait_for_master);
  keywords.Take("location_cache_entries", &options.location_cache_entries);
  keywords.Take("threads", &options.async_threads);
  keywords.Take("queue", &options.async_queue);
  keywords.Take("tcp_streams", &options.tcp_streams);
  keywords.Take("host_id", &options.host_id);
  keywords.Take("trusted_uids", &options.trusted_uids);
  options.path = PathOf(path);
  return options;
}

std::unique_ptr<Client> Connect(const ClientOptions& options, const CancelToken& cancel) {
  RequireThreadsOfGrpc();
  auto connected = WithoutGil([&] { return Client::Connect(options, cancel); });
  RaiseIfError(connected.status());
  return *std::move(connected);
}

}  // namespace moonpool::python
