// /get_all_segments on the operations port: what engines that were written for Mooncake's master
// ask it before they start, to see whether there is memory to write to.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/http/http_server.h"

namespace moonpool::master {

// The names of the nodes that take part, one a line. While there are none, and at a master that
// does not lead (503), the page is empty: those who ask take any text for "it is ready".
HttpResponse SegmentsPage(const absl::StatusOr<std::vector<std::string>>& nodes);

// `nodes` is called by http threads, and must not block.
void ServeSegments(std::function<absl::StatusOr<std::vector<std::string>>()> nodes,
                   HttpServer& server);

}  // namespace moonpool::master
