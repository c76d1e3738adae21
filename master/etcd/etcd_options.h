// How to reach etcd, as the operator sets it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace moonpool::master {

struct EtcdOptions {
  // HOST:PORT of the members, tried in turn; at least one. All are of one cluster.
  std::vector<std::string> endpoints = {};
  // PEM files. With a CA all is encrypted and etcd has to prove its name by a certificate of that
  // CA. The certificate and its key prove who this master is, where etcd wants to know.
  std::string ca_file = {};
  std::string cert_file = {};
  std::string key_file = {};
  // Where etcd has authentication on. The file holds the password and nothing else, a newline at
  // the end aside; it is read again whenever etcd wants a new login.
  std::string user = {};
  std::string password_file = {};
};

// What the ranges of single settings do not say.
absl::Status Validate(const EtcdOptions& options);

}  // namespace moonpool::master
