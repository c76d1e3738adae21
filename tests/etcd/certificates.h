// Certificates for one test, made by the openssl program.
#pragma once

#include <string>

#include "common/testing/temp_dir.h"

namespace moonpool::etcd_tests {

class Certificates {
 public:
  // Empty when they can be made, else why not.
  static std::string WhyNot();
  // A CA that certifies 127.0.0.1 as a server, and a client. Fails the test when it cannot.
  Certificates();

  std::string ca() const { return Path("ca.pem"); }
  std::string server_cert() const { return Path("server.pem"); }
  std::string server_key() const { return Path("server.key"); }
  std::string client_cert() const { return Path("client.pem"); }
  std::string client_key() const { return Path("client.key"); }

 private:
  std::string Path(const std::string& name) const { return dir_.path() + "/" + name; }
  void Issue(const std::string& name, const std::string& subject);

  const TempDir dir_;
};

}  // namespace moonpool::etcd_tests
