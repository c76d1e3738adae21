// What the operator of a node may set.
#pragma once

#include <string>

#include "common/config/config_table.h"
#include "storage_node/service/node.h"

namespace moonpool::storage_node {

struct ProgramOptions {
  NodeOptions node;
  std::string http_listen = "127.0.0.1:0";
};

// Binds the options to `table`; both are borrowed.
void Describe(ProgramOptions& options, ConfigTable& table);

}  // namespace moonpool::storage_node
