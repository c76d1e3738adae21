#include "common/http/http_server.h"

#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/config/host_port.h"
#include "common/status_macros.h"

namespace moonpool {
namespace {

constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);

// A file descriptor that closes itself.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

absl::StatusOr<Fd> Listen(const HostPort& at) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int rc = getaddrinfo(at.host.c_str(), absl::StrCat(at.port).c_str(), &hints, &found);
  if (rc != 0) {
    return absl::UnavailableError(absl::StrCat("resolve ", at.host, ": ", gai_strerror(rc)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, freeaddrinfo);
  Fd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (fd.get() < 0 || setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 || listen(fd.get(), 64) != 0) {
    return absl::UnavailableError(absl::StrCat("listen on ", at.ToString(), ": ", strerror(errno)));
  }
  return fd;
}

uint16_t BoundPort(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

const char* ReasonPhrase(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    default: return "Status";
  }
}

std::string Serialize(const HttpResponse& response, bool with_body) {
  return absl::StrCat("HTTP/1.1 ", response.status, " ", ReasonPhrase(response.status),
                      "\r\nContent-Type: ", response.content_type,
                      "\r\nContent-Length: ", response.body.size(), "\r\nConnection: close\r\n\r\n",
                      with_body ? response.body : "");
}

}  // namespace

// The thread and all it touches. Everything but Stop's eventfd belongs to the thread.
class HttpServer::Loop {
 public:
  Loop(Fd listener, const HttpOptions& options, const std::map<std::string, HttpHandler>& handlers)
      : listener_(std::move(listener)),
        stop_(eventfd(0, EFD_CLOEXEC)),
        options_(options),
        handlers_(handlers),
        thread_([this] { Run(); }) {}

  ~Loop() {
    const uint64_t one = 1;
    MP_CHECK(write(stop_.get(), &one, sizeof one) == sizeof one, "eventfd", errno);
    thread_.join();
  }

 private:
  struct Connection {
    Fd fd;
    absl::Time deadline;
    std::string received = {};
    std::string reply = {};
    size_t sent = 0;
    bool is_done = false;

    bool is_replying() const { return sent < reply.size(); }
    // Reply sent: input is drained, so that closing does not reset the peer before it has read.
    bool is_draining() const { return !reply.empty() && sent == reply.size(); }
  };

  void Run() {
    pthread_setname_np(pthread_self(), "http");
    for (;;) {
      std::vector<pollfd> polls = {{stop_.get(), POLLIN, 0}, {listener_.get(), 0, 0}};
      // At the limit, newcomers wait in the kernel's backlog, which is bounded too.
      const bool may_accept = clock_.Now() >= accept_after_;
      if (may_accept && connections_.size() < options_.connections_max) polls[1].events = POLLIN;
      for (const Connection& connection : connections_) {
        const short events = connection.is_replying() ? POLLOUT : POLLIN;
        polls.push_back({connection.fd.get(), events, 0});
      }
      poll(polls.data(), polls.size(), TimeoutMillis());
      if (polls[0].revents != 0) return;
      for (size_t i = 0; i < connections_.size(); ++i) {
        if (polls[i + 2].revents != 0) Advance(connections_[i]);
      }
      CloseFinished();
      if (polls[1].revents != 0) Accept();
    }
  }

  int TimeoutMillis() const {
    const absl::Time now = clock_.Now();
    absl::Time next = accept_after_ > now ? accept_after_ : absl::InfiniteFuture();
    for (const Connection& connection : connections_) next = std::min(next, connection.deadline);
    if (next == absl::InfiniteFuture()) return -1;
    const int64_t millis = absl::ToInt64Milliseconds(next - now) + 1;
    return static_cast<int>(std::clamp<int64_t>(millis, 0, 60'000));
  }

  void Accept() {
    Fd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.get() < 0) {
      // Out of descriptors: the newcomer stays and poll would report it for ever, so wait a little.
      if (errno == EMFILE || errno == ENFILE) accept_after_ = clock_.Now() + kAcceptPause;
      return;
    }
    connections_.push_back({std::move(fd), clock_.Now() + options_.connection_timeout});
  }

  void CloseFinished() {
    const absl::Time now = clock_.Now();
    std::erase_if(connections_, [now](const Connection& connection) {
      return connection.is_done || connection.deadline <= now;
    });
  }

  void Advance(Connection& connection) {
    if (!connection.is_replying()) Receive(connection);
    if (connection.is_replying()) Send(connection);
  }

  void Receive(Connection& connection) {
    char buffer[4096];
    const ssize_t count = recv(connection.fd.get(), buffer, sizeof buffer, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) {
      connection.is_done = true;
      return;
    }
    if (connection.is_draining()) return;
    connection.received.append(buffer, static_cast<size_t>(count));
    connection.reply = ReplyTo(connection.received);
  }

  void Send(Connection& connection) {
    const absl::string_view rest = absl::string_view(connection.reply).substr(connection.sent);
    const ssize_t count = send(connection.fd.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count < 0) {
      connection.is_done = errno != EAGAIN && errno != EINTR;
      return;
    }
    connection.sent += static_cast<size_t>(count);
    if (connection.is_draining()) shutdown(connection.fd.get(), SHUT_WR);
  }

  // Empty while the request is incomplete.
  std::string ReplyTo(absl::string_view received) const {
    const absl::StatusOr<std::optional<HttpRequest>> request = ParseHttpRequest(received);
    if (!request.ok()) {
      const int status = absl::IsResourceExhausted(request.status()) ? 431 : 400;
      const absl::string_view why = request.status().message();
      return Serialize({.status = status, .body = absl::StrCat(why, "\n")}, true);
    }
    if (!request->has_value()) return "";
    const HttpRequest& complete = **request;
    if (complete.method != "GET" && complete.method != "HEAD") {
      return Serialize({.status = 405, .body = "GET and HEAD only\n"}, true);
    }
    const auto handler = handlers_.find(complete.path);
    if (handler == handlers_.end()) return Serialize({.status = 404, .body = KnownPaths()}, true);
    return Serialize(handler->second(complete), complete.method == "GET");
  }

  std::string KnownPaths() const {
    std::string text = "not found; there are:\n";
    for (const auto& [path, handler] : handlers_) absl::StrAppend(&text, path, "\n");
    return text;
  }

  const Fd listener_;
  const Fd stop_;
  const HttpOptions& options_;
  const std::map<std::string, HttpHandler>& handlers_;
  const SteadyClock clock_;
  std::vector<Connection> connections_;
  absl::Time accept_after_ = absl::InfinitePast();
  std::thread thread_;  // last: it starts when all else is there
};

HttpServer::HttpServer(HttpOptions options) : options_(std::move(options)) {}

HttpServer::~HttpServer() { Stop(); }

void HttpServer::Handle(absl::string_view path, HttpHandler handler) {
  MP_CHECK(loop_ == nullptr, "handlers are registered before Start", path);
  handlers_[std::string(path)] = std::move(handler);
}

absl::Status HttpServer::Start() {
  MP_CHECK(loop_ == nullptr, "started twice");
  ASSIGN_OR_RETURN(HostPort at, ParseHostPort(options_.listen));
  ASSIGN_OR_RETURN(Fd listener, Listen(at));
  at.port = BoundPort(listener.get());
  address_ = at.ToString();
  loop_ = std::make_unique<Loop>(std::move(listener), options_, handlers_);
  return absl::OkStatus();
}

void HttpServer::Stop() { loop_.reset(); }

const std::string& HttpServer::address() const { return address_; }

void ServeMetrics(const metrics::Registry& registry, HttpServer& server) {
  server.Handle("/metrics", [&registry](const HttpRequest&) {
    return HttpResponse{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                        .body = registry.Text()};
  });
}

void ServeHealth(std::function<Health()> health, HttpServer& server) {
  server.Handle("/healthz", [health = std::move(health)](const HttpRequest&) {
    const Health now = health();
    return HttpResponse{.status = now.is_healthy ? 200 : 503, .body = absl::StrCat(now.text, "\n")};
  });
}

}  // namespace moonpool
