// What the operator of a master may set.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/config/config_table.h"
#include "common/log.h"
#include "master/core/options.h"
#include "master/handlers/options.h"
#include "master/service/server.h"

namespace moonpool::master {

struct MasterOptions {
  ServerOptions server;
  std::string http_listen = "127.0.0.1:7401";
  std::string meta_dir;  // empty: nothing outlives the master
  CoreOptions core;
  HandlersOptions handlers;
};

// Binds the options to `table`; both are borrowed.
void Describe(MasterOptions& options, ConfigTable& table);

// What the ranges of single settings do not say.
absl::Status Validate(const MasterOptions& options);

}  // namespace moonpool::master
