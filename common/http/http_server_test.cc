#include "common/http/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "common/config/host_port.h"
#include "common/testing/status_matchers.h"

namespace moonpool {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

int Connect(const std::string& address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(ParseHostPort(address)->port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  return fd;
}

void SendAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

std::string ReadToEnd(int fd) {
  std::string all;
  char buffer[4096];
  for (ssize_t count = 0; (count = recv(fd, buffer, sizeof buffer, 0)) > 0;) {
    all.append(buffer, static_cast<size_t>(count));
  }
  close(fd);
  return all;
}

std::string Ask(const HttpServer& server, absl::string_view request) {
  const int fd = Connect(server.address());
  SendAll(fd, request);
  return ReadToEnd(fd);
}

TEST(HttpServer, ServesMetricsAndHealth) {
  metrics::Registry registry;
  registry.AddCounter("moonpool_test_hits_total", "Hits.").Increment(7);
  std::atomic<bool> is_healthy = false;
  HttpServer server({});
  ServeMetrics(registry, server);
  ServeHealth([&] { return Health{is_healthy, is_healthy ? "serving" : "starting"}; }, server);
  ASSERT_THAT(server.Start(), IsOk());

  EXPECT_THAT(Ask(server, "GET /healthz HTTP/1.1\r\n\r\n"),
              StartsWith("HTTP/1.1 503 Service Unavailable\r\n"));
  is_healthy = true;
  const std::string healthy = Ask(server, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(healthy, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(healthy, HasSubstr("\r\n\r\nserving\n"));
  EXPECT_THAT(Ask(server, "GET /metrics HTTP/1.1\r\n\r\n"),
              HasSubstr("moonpool_test_hits_total 7\n"));
}

TEST(HttpServer, HandlersSeeTheDecodedQuery) {
  HttpServer server({});
  server.Handle("/a b", [](const HttpRequest& request) {
    return HttpResponse{.body = request.query.at("k") + "|" + request.query.at("flag")};
  });
  ASSERT_THAT(server.Start(), IsOk());
  EXPECT_THAT(Ask(server, "GET /a%20b?k=%2Fx%3D&flag HTTP/1.1\r\n\r\n"), HasSubstr("\r\n\r\n/x=|"));
}

TEST(HttpServer, HeadHasTheLengthAndNoBody) {
  HttpServer server({});
  server.Handle("/x", [](const HttpRequest&) { return HttpResponse{.body = "12345"}; });
  ASSERT_THAT(server.Start(), IsOk());
  const std::string reply = Ask(server, "HEAD /x HTTP/1.1\r\n\r\n");
  EXPECT_THAT(reply, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(reply, Not(HasSubstr("12345")));
}

TEST(HttpServer, RefusalsSayWhy) {
  HttpServer server({});
  server.Handle("/x", [](const HttpRequest&) { return HttpResponse{}; });
  ASSERT_THAT(server.Start(), IsOk());
  EXPECT_THAT(Ask(server, "GET /y HTTP/1.1\r\n\r\n"), HasSubstr("not found; there are:\n/x\n"));
  EXPECT_THAT(Ask(server, "POST /x HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody"),
              StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Ask(server, "hello\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask(server, "GET /" + std::string(16 << 10, 'a') + " HTTP/1.1\r\n\r\n"),
              StartsWith("HTTP/1.1 414 "));
}

TEST(HttpServer, EndlessRequestsAreCutOff) {
  HttpServer server({.connection_timeout = absl::Hours(1)});
  ASSERT_THAT(server.Start(), IsOk());
  EXPECT_THAT(Ask(server, "GET /" + std::string(1 << 20, 'a')), Not(HasSubstr("200")));
  std::string headers = "GET /x HTTP/1.1\r\n";
  for (int i = 0; i < 100'000; ++i) headers += "A: b\r\n";
  EXPECT_THAT(Ask(server, headers), Not(HasSubstr("200")));
}

TEST(HttpServer, RangesAreIgnored) {
  HttpServer server({});
  server.Handle("/x", [](const HttpRequest&) { return HttpResponse{.body = "12345"}; });
  ASSERT_THAT(server.Start(), IsOk());
  std::string ranges = "0-1";
  for (int i = 0; i < 1500; ++i) ranges += ",0-1";
  const std::string reply = Ask(server, "GET /x HTTP/1.1\r\nRange: bytes=" + ranges + "\r\n\r\n");
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(reply, HasSubstr("\r\n\r\n12345"));
}

TEST(HttpServer, RequestMayArriveInPieces) {
  HttpServer server({});
  server.Handle("/x", [](const HttpRequest&) { return HttpResponse{.body = "yes"}; });
  ASSERT_THAT(server.Start(), IsOk());
  const int fd = Connect(server.address());
  for (const char c : std::string("GET /x HTTP/1.1\r\n\r\n")) SendAll(fd, {&c, 1});
  EXPECT_THAT(ReadToEnd(fd), HasSubstr("yes"));
}

TEST(HttpServer, LargeRepliesArriveWhole) {
  HttpServer server({});
  const std::string body(8 << 20, 'z');
  server.Handle("/big", [&](const HttpRequest&) { return HttpResponse{.body = body}; });
  ASSERT_THAT(server.Start(), IsOk());
  const std::string reply = Ask(server, "GET /big HTTP/1.1\r\n\r\n");
  EXPECT_EQ(reply.size() - reply.find("\r\n\r\n") - 4, body.size());
}

TEST(HttpServer, SilentPeersAreClosedAndOthersServedMeanwhile) {
  HttpServer server({.connections_max = 2, .connection_timeout = absl::Milliseconds(100)});
  server.Handle("/x", [](const HttpRequest&) { return HttpResponse{.body = "yes"}; });
  ASSERT_THAT(server.Start(), IsOk());
  const int silent_one = Connect(server.address());
  const int silent_two = Connect(server.address());
  // Waits in the backlog until the silent ones have used up their time.
  EXPECT_THAT(Ask(server, "GET /x HTTP/1.1\r\n\r\n"), HasSubstr("yes"));
  EXPECT_THAT(ReadToEnd(silent_one), IsEmpty());
  EXPECT_THAT(ReadToEnd(silent_two), IsEmpty());
}

TEST(HttpServer, AProbeIsAnsweredBesideManyIdleConnections) {
  HttpServer server({.connections_max = 2, .connection_timeout = absl::Hours(1)});
  server.Handle("/healthz", [](const HttpRequest&) { return HttpResponse{.body = "fine"}; });
  ASSERT_THAT(server.Start(), IsOk());
  std::vector<int> idle;
  for (int i = 0; i < 20; ++i) idle.push_back(Connect(server.address()));
  EXPECT_THAT(Ask(server, "GET /healthz HTTP/1.1\r\n\r\n"), HasSubstr("fine"));
  for (const int fd : idle) close(fd);
}

TEST(HttpServer, TricklingDoesNotExtendTheDeadline) {
  HttpServer server({.connections_max = 1, .connection_timeout = absl::Milliseconds(100)});
  server.Handle("/x", [](const HttpRequest&) { return HttpResponse{.body = "yes"}; });
  ASSERT_THAT(server.Start(), IsOk());
  const int trickling = Connect(server.address());
  std::atomic<bool> is_done = false;
  std::thread trickle([&] {
    for (pollfd wait = {trickling, 0, 0}; !is_done; poll(&wait, 1, 10)) SendAll(trickling, "G");
  });
  EXPECT_THAT(Ask(server, "GET /x HTTP/1.1\r\n\r\n"), HasSubstr("yes"));
  is_done = true;
  trickle.join();
  close(trickling);
}

TEST(HttpServer, ManyClientsAtOnce) {
  HttpServer server({});
  server.Handle("/x", [](const HttpRequest&) { return HttpResponse{.body = "yes"}; });
  ASSERT_THAT(server.Start(), IsOk());
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      for (int n = 0; n < 20; ++n) {
        EXPECT_THAT(Ask(server, "GET /x HTTP/1.1\r\n\r\n"), HasSubstr("yes"));
      }
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST(HttpServer, StopDoesNotWaitForPeersAndIsIdempotent) {
  HttpServer server({.connection_timeout = absl::Hours(1)});
  ASSERT_THAT(server.Start(), IsOk());
  const int fd = Connect(server.address());
  server.Stop();
  server.Stop();
  EXPECT_THAT(ReadToEnd(fd), IsEmpty());
}

TEST(HttpServer, StartNamesTheAddressItCannotHave) {
  HttpServer first({});
  ASSERT_THAT(first.Start(), IsOk());
  HttpServer second({.listen = first.address()});
  const absl::Status status = second.Start();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(std::string(status.message()), HasSubstr(first.address()));
  EXPECT_THAT(HttpServer({.listen = "nowhere"}).Start(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace moonpool
