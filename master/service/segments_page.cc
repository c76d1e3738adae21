#include "master/service/segments_page.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace moonpool::master {
namespace {

constexpr int kServiceUnavailable = 503;

}  // namespace

HttpResponse SegmentsPage(const absl::StatusOr<std::vector<std::string>>& nodes) {
  HttpResponse page;
  if (!nodes.ok()) {
    page.status = kServiceUnavailable;
    return page;
  }
  for (const std::string& name : *nodes) absl::StrAppend(&page.body, name, "\n");
  return page;
}

void ServeSegments(std::function<absl::StatusOr<std::vector<std::string>>()> nodes,
                   HttpServer& server) {
  server.Handle("/get_all_segments",
                [nodes = std::move(nodes)](const HttpRequest&) { return SegmentsPage(nodes()); });
}

}  // namespace moonpool::master
