#include "tests/etcd/certificates.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "cli/dev_cluster/child_process.h"
#include "common/error.h"
#include "tests/etcd/etcd_process.h"

namespace moonpool::etcd_tests {
namespace {

constexpr char kProgram[] = MOONPOOL_OPENSSL_PROGRAM;

}  // namespace

std::string Certificates::WhyNot() {
  if (!std::filesystem::exists(kProgram)) {
    return "openssl is not installed; TLS to etcd is not tested";
  }
  return "";
}

Certificates::Certificates() {
  Issue("ca", "/CN=a CA of one test");
  Issue("server", "/CN=etcd");
  Issue("client", "/CN=master");
}

void Certificates::Issue(const std::string& name, const std::string& subject) {
  std::vector<std::string> args = {"req",      "-x509",
                                   "-new",     "-nodes",
                                   "-newkey",  "ec",
                                   "-pkeyopt", "ec_paramgen_curve:P-256",
                                   "-days",    "2",
                                   "-subj",    subject,
                                   "-keyout",  Path(name + ".key"),
                                   "-out",     Path(name + ".pem")};
  if (name != "ca") {
    for (const char* arg : {"-addext", "subjectAltName=IP:127.0.0.1", "-addext",
                            "basicConstraints=critical,CA:FALSE", "-CA"}) {
      args.emplace_back(arg);
    }
    args.push_back(ca());
    args.emplace_back("-CAkey");
    args.push_back(Path("ca.key"));
  }
  auto openssl = dev::ChildProcess::Start({.name = "openssl",
                                           .program = kProgram,
                                           .args = std::move(args),
                                           .log_path = Path("log"),
                                           .output_path = Path("out")});
  ASSERT_TRUE(openssl.ok()) << Describe(openssl.status());
  ASSERT_TRUE((*openssl)->WaitForExit(kPatience));
  EXPECT_EQ((*openssl)->Poll(), 0) << dev::TailOfFile(Path("log"), 10);
}

}  // namespace moonpool::etcd_tests
