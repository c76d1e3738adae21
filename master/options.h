// What the operator of a master may set.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/config/config_table.h"
#include "common/log.h"
#include "master/core/options.h"
#include "master/election/election_options.h"
#include "master/etcd/etcd_options.h"
#include "master/handlers/options.h"
#include "master/service/server.h"

namespace moonpool::master {

struct MasterOptions {
  ServerOptions server;
  std::string http_listen = "127.0.0.1:7401";
  std::string meta_dir;      // empty: nothing outlives the master, or etcd has it
  EtcdOptions etcd;          // no endpoint: this master is alone
  ElectionOptions election;  // its address empty: where it listens
  CoreOptions core;
  HandlersOptions handlers;

  bool is_elected() const { return !etcd.endpoints.empty(); }
};

// Binds the options to `table`; both are borrowed.
void Describe(MasterOptions& options, ConfigTable& table);

// What the ranges of single settings do not say.
absl::Status Validate(const MasterOptions& options);

}  // namespace moonpool::master
