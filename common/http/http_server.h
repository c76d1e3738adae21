// The operations port of a process: /metrics, /healthz and whatever else is registered.
//
//   HttpServer http({.listen = "127.0.0.1:9400"});
//   ServeMetrics(registry, http);
//   ServeHealth([&] { return Health{core.is_ready(), core.state()}; }, http);
//   RETURN_IF_ERROR(http.Start());
//   ... http.address() ...
//   http.Stop();
//
// GET and HEAD only, one request per connection, no TLS: it is bound to loopback unless told
// otherwise. cpp-httplib does the protocol, and only http_server.cc sees it. Connections, request
// length and the time a peer may take are bounded, and while others wait, those whose request is
// not there within 20 ms are closed, the oldest first: silent ones cannot keep a probe waiting.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/metrics/metrics.h"

namespace moonpool {

struct HttpOptions {
  std::string listen = "127.0.0.1:0";
  // Served at the same time, by a thread ("http") each. More wait, a few dozen of them.
  size_t connections_max = 8;
  // A connection is closed this long after it was accepted, whatever its state.
  absl::Duration connection_timeout = absl::Seconds(2);
};

struct HttpRequest {
  std::string method;                        // "GET"
  std::string path;                          // "/metrics", percent-decoded
  std::map<std::string, std::string> query;  // "?top=10": {"top", "10"}, percent-decoded
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// Runs on an http thread, at the same time as others; must not block, since Stop waits for it.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

class HttpServer {
 public:
  explicit HttpServer(HttpOptions options);
  ~HttpServer();  // stops
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Exact paths. Before Start.
  void Handle(absl::string_view path, HttpHandler handler);

  // Binds and serves. InvalidArgument: listen is no address; Unavailable: it cannot be bound.
  absl::Status Start();
  // Closes every connection and joins. Idempotent.
  void Stop();

  // Where it listens, the port filled in. After Start.
  const std::string& address() const;

 private:
  class Listener;

  const HttpOptions options_;
  std::map<std::string, HttpHandler> handlers_;
  std::unique_ptr<Listener> listener_;
  std::string address_;
};

struct Health {
  bool is_healthy = false;
  std::string text;  // why, one line
};

// /metrics in the Prometheus text format. `registry` is borrowed.
void ServeMetrics(const metrics::Registry& registry, HttpServer& server);
// /healthz: 200 or 503 and the text.
void ServeHealth(std::function<Health()> health, HttpServer& server);

}  // namespace moonpool
