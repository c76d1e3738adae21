// A port of loopback that takes connections and never says a word, as behind a cut network.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/unique_fd.h"

namespace moonpool::etcd_tests {

class SilentPort {
 public:
  SilentPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    MP_CHECK(bind(socket_.get(), any, size) == 0 && listen(socket_.get(), 16) == 0 &&
                 getsockname(socket_.get(), any, &size) == 0,
             "no port on loopback");
    endpoint_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }
  const std::string& endpoint() const { return endpoint_; }

 private:
  const UniqueFd socket_;
  std::string endpoint_;
};

}  // namespace moonpool::etcd_tests
