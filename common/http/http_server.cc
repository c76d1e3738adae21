#include "common/http/http_server.h"

#include <httplib.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/config/host_port.h"
#include "common/status_macros.h"
#include "common/steady_cond_var.h"

namespace moonpool {
namespace {

// All of a request. A longer one is not answered: the library itself bounds the path and the
// length of one header, but neither how long a line may grow before it is looked at nor how many
// headers there are.
constexpr size_t kRequestBytesMax = 64 * 1024;
constexpr int kBacklog = 64;
// What a connection has to get its request through in when others wait.
constexpr absl::Duration kAskingTime = absl::Milliseconds(20);

// The connection as the library reads and writes it. Its own stream bounds each read and each
// write, which leaves a peer that trickles all the time it wants; here one deadline is for all.
class Connection final : public httplib::Stream {
 public:
  Connection(int fd, absl::Duration timeout) : fd_(fd), deadline_(clock_.Now() + timeout) {}

  bool is_readable() const override { return begin_ < end_ || IsReady(POLLIN); }
  bool is_writable() const override { return IsReady(POLLOUT); }

  ssize_t read(char* out, size_t size) override {
    if (begin_ == end_ && !Refill()) return -1;
    const size_t count = std::min(size, end_ - begin_);
    std::copy_n(buffer_.begin() + begin_, count, out);
    begin_ += count;
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* bytes, size_t size) override {
    for (size_t sent = 0; sent < size;) {
      if (!IsReady(POLLOUT)) return -1;
      const ssize_t count = send(fd_, bytes + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count > 0) sent += static_cast<size_t>(count);
      if (count < 0 && errno != EAGAIN && errno != EINTR) return -1;
    }
    return static_cast<ssize_t>(size);
  }

  // Ends the answer. Bytes nobody asked for, a body for example, are taken in first: closing with
  // some unread resets the connection, and the answer may be lost with it.
  void Finish() {
    shutdown(fd_, SHUT_WR);
    while (Receive(MSG_DONTWAIT) > 0) {
    }
  }

  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return fd_; }

 private:
  bool IsReady(short events) const {
    pollfd poll_fd = {fd_, events, 0};
    int ready = 0;
    do {
      const int64_t millis = absl::ToInt64Milliseconds(deadline_ - clock_.Now()) + 1;
      if (millis <= 0) return false;
      ready = poll(&poll_fd, 1, static_cast<int>(std::min<int64_t>(millis, 60'000)));
    } while (ready == 0 || (ready < 0 && errno == EINTR));
    return ready > 0;
  }

  bool Refill() {
    if (!IsReady(POLLIN)) return false;
    const ssize_t count = Receive(0);
    begin_ = 0;
    end_ = count > 0 ? static_cast<size_t>(count) : 0;
    return count > 0;
  }

  // No more than the request may still have; then it looks ended.
  ssize_t Receive(int flags) {
    const ssize_t count = recv(fd_, buffer_.data(), std::min(buffer_.size(), left_), flags);
    if (count > 0) left_ -= static_cast<size_t>(count);
    return count;
  }

  const SteadyClock clock_;
  const int fd_;
  const absl::Time deadline_;
  size_t left_ = kRequestBytesMax;
  std::array<char, 4096> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

// The library's pool has a queue without end. Here the thread that accepts waits for a free worker
// before it hands a connection on, and newcomers wait in the kernel's backlog. While it waits it
// calls `make_room` now and then.
class Workers final : public httplib::TaskQueue {
 public:
  Workers(size_t count, std::function<void()> make_room)
      : make_room_(std::move(make_room)), free_(count), pool_(count) {}

  void enqueue(std::function<void()> task) override {
    Take();
    pool_.enqueue([this, task = std::move(task)] {
      task();
      Give();
    });
  }

  void shutdown() override { pool_.shutdown(); }

 private:
  void Take() {
    const auto has_free = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return free_ > 0; };
    absl::MutexLock lock(&mutex_);
    while (!one_is_free_.Await(&mutex_, kAskingTime, has_free)) make_room_();
    --free_;
  }

  void Give() {
    absl::MutexLock lock(&mutex_);
    ++free_;
    one_is_free_.Signal();
  }

  const std::function<void()> make_room_;
  absl::Mutex mutex_;
  SteadyCondVar one_is_free_;
  size_t free_ ABSL_GUARDED_BY(mutex_);
  httplib::ThreadPool pool_;
};

}  // namespace

// The library's server, with its connections in our hands: each gets a deadline, and Stop ends
// them.
class HttpServer::Listener final : private httplib::Server {
 public:
  Listener(const HttpOptions& options, const std::map<std::string, HttpHandler>& handlers)
      : options_(options), handlers_(handlers) {
    // By default it would share the port with whoever else listens on it.
    set_socket_options([](socket_t fd) {
      const int on = 1;
      setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    });
    // Here every request is answered, so the library never gets to reading a body.
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      Answer(request, response);
      return HandlerResponse::Handled;
    });
    set_exception_handler([](const auto&, auto&, std::exception_ptr) {
      MP_CHECK(false, "an http handler threw an exception");
    });
    new_task_queue = [this] {
      is_listening_.Notify();
      return new Workers(options_.connections_max, [this] { EndOldestAsking(); });
    };
  }

  ~Listener() override {
    if (!thread_.joinable()) return;
    stop();
    EndConnections();
    thread_.join();
  }

  // The port; negative with errno when it cannot be had.
  int Start(const HostPort& at) {
    errno = 0;
    int port = at.port;
    if (port == 0) {
      port = bind_to_any_port(at.host);
    } else if (!bind_to_port(at.host, port)) {
      port = -1;
    }
    if (port < 0) return port;
    ::listen(svr_sock_, kBacklog);  // the library's own backlog is 5
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "http");  // the workers inherit it
      listen_after_bind();
    });
    is_listening_.WaitForNotification();  // before that, stop() does nothing
    return port;
  }

 private:
  bool process_and_close_socket(socket_t fd) override {
    if (Admit(fd)) {
      Connection connection(fd, options_.connection_timeout);
      bool is_closed = false;
      // Called when the headers are complete. Ranges would let one short request ask for many
      // copies of the body.
      process_request(connection, /*close_connection=*/true, is_closed,
                      [this, fd](httplib::Request& request) {
                        request.ranges.clear();
                        EndAsking(fd);
                      });
      connection.Finish();
      EndAsking(fd);
      absl::MutexLock lock(&mutex_);
      connections_.erase(fd);
    }
    close(fd);
    return true;
  }

  bool Admit(int fd) {
    absl::MutexLock lock(&mutex_);
    if (is_stopping_) return false;
    connections_.insert(fd);
    asking_.push_back({fd, clock_.Now()});
    return true;
  }

  void EndAsking(int fd) {
    absl::MutexLock lock(&mutex_);
    std::erase_if(asking_, [fd](const Asking& asking) { return asking.fd == fd; });
  }

  // Connections that ask for nothing must not keep those that do from being served.
  void EndOldestAsking() {
    absl::MutexLock lock(&mutex_);
    if (asking_.empty() || clock_.Now() - asking_.front().since < kAskingTime) return;
    shutdown(asking_.front().fd, SHUT_RDWR);
    asking_.erase(asking_.begin());
  }

  void EndConnections() {
    absl::MutexLock lock(&mutex_);
    is_stopping_ = true;
    for (const int fd : connections_) shutdown(fd, SHUT_RDWR);
  }

  void Answer(const httplib::Request& asked, httplib::Response& response) const {
    HttpRequest request = {.method = asked.method, .path = asked.path, .query = {}};
    for (const auto& [name, value] : asked.params) request.query[name] = value;
    const HttpResponse answer = AnswerTo(request);
    response.status = answer.status;
    response.set_content(answer.body, answer.content_type);
  }

  HttpResponse AnswerTo(const HttpRequest& request) const {
    if (request.method != "GET" && request.method != "HEAD") {
      return {.status = 405, .body = "GET and HEAD only\n"};
    }
    const auto handler = handlers_.find(request.path);
    if (handler != handlers_.end()) return handler->second(request);
    std::string known = "not found; there are:\n";
    for (const auto& [path, unused] : handlers_) absl::StrAppend(&known, path, "\n");
    return {.status = 404, .body = std::move(known)};
  }

  struct Asking {
    int fd;
    absl::Time since;
  };

  const HttpOptions& options_;
  const std::map<std::string, HttpHandler>& handlers_;
  const SteadyClock clock_;
  absl::Notification is_listening_;
  absl::Mutex mutex_;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<int> connections_ ABSL_GUARDED_BY(mutex_);
  std::vector<Asking> asking_
      ABSL_GUARDED_BY(mutex_);  // their request is not complete; oldest first
  std::thread thread_;
};

HttpServer::HttpServer(HttpOptions options) : options_(std::move(options)) {}

HttpServer::~HttpServer() { Stop(); }

void HttpServer::Handle(absl::string_view path, HttpHandler handler) {
  MP_CHECK(listener_ == nullptr, "handlers are registered before Start", path);
  handlers_[std::string(path)] = std::move(handler);
}

absl::Status HttpServer::Start() {
  MP_CHECK(listener_ == nullptr, "started twice");
  ASSIGN_OR_RETURN(HostPort at, ParseHostPort(options_.listen));
  auto listener = std::make_unique<Listener>(options_, handlers_);
  const int port = listener->Start(at);
  if (port < 0) {
    const char* why = errno == 0 ? "no such address" : strerror(errno);
    return absl::UnavailableError(absl::StrCat("listen on ", at.ToString(), ": ", why));
  }
  at.port = static_cast<uint16_t>(port);
  address_ = at.ToString();
  listener_ = std::move(listener);
  return absl::OkStatus();
}

void HttpServer::Stop() { listener_.reset(); }

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
