// What a drain has come to, in words and as JSON.
#pragma once

#include <string>

#include "moonpool/v1/admin.pb.h"
#include "nlohmann/json.hpp"

namespace moonpool::cli {

// "drained: 120 objects (8 MiB) have moved"; "3 left (192 KiB), ...; 2 find no room elsewhere, ..."
// Of a node that is drained.
bool IsDone(const v1::NodeStatus& node);
std::string Describe(const v1::NodeStatus& node);
nlohmann::ordered_json DrainToJson(const v1::NodeStatus& node);

}  // namespace moonpool::cli
