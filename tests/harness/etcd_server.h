// A real etcd of one member, in a folder and at an address that the caller chooses. Tests and
// scenarios use no other: one that runs on this machine already is nobody's to touch.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/dev_cluster/child_process.h"

namespace moonpool::harness {

struct EtcdServerOptions {
  std::string folder;    // its data and logs; started again in the same one it is the same etcd
  std::string endpoint;  // HOST:PORT for its clients
  // PEM files; with them it speaks TLS only. `ca` set as well: clients need a certificate of it.
  std::string cert = {};
  std::string key = {};
  std::string ca = {};
};

// Empty when there is an etcd to start, else what to do.
std::string WhyNoEtcd();

// Does not wait until it serves.
absl::StatusOr<std::unique_ptr<dev::ChildProcess>> SpawnEtcd(const EtcdServerOptions& options);
// Waits until it accepts connections.
absl::StatusOr<std::unique_ptr<dev::ChildProcess>> StartEtcd(const EtcdServerOptions& options);

}  // namespace moonpool::harness
