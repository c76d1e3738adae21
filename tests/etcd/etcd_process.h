// A real etcd of one member, on a free port of loopback and in a folder of its own. Tests use no
// other: one that runs on this machine already is nobody's to touch.
//
//   class ThisTest : public EtcdTest { ... };        // skips where etcd is not installed
//   auto etcd = EtcdProcess::Start({});
//   etcd->Kill();      // SIGKILL, then:
//   etcd->Restart();   // the same port and data
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/dev_cluster/child_process.h"
#include "common/clock.h"
#include "common/testing/temp_dir.h"
#include "common/testing/test_logger.h"
#include "master/etcd/etcd_client.h"
#include "tests/harness/wait.h"

namespace moonpool::etcd_tests {

using harness::Eventually;
using harness::kPatience;

// Blocks until the call has ended.
absl::StatusOr<master::EtcdAnswer> Ask(master::Etcd& etcd, master::EtcdRequest request,
                                       absl::Duration timeout = absl::Seconds(5));

struct EtcdProcessOptions {
  // PEM files; with them it speaks TLS only. `ca` set as well: clients need a certificate of it.
  std::string cert = {};
  std::string key = {};
  std::string ca = {};
};

class EtcdProcess {
 public:
  // Empty when it may be started, else why not.
  static std::string WhyNot();
  // Fails the test and returns nullptr when it does not come up.
  static std::unique_ptr<EtcdProcess> Start(EtcdProcessOptions options);

  // "127.0.0.1:PORT"
  const std::string& endpoint() const { return endpoint_; }
  void Kill();
  void Signal(int signal) { process_->Signal(signal); }
  // False, and the test fails, when it does not come up again.
  bool Restart();

  // What an operator does once with etcdctl: a user who may do all, and one who may read and write
  // below the prefix; from then on nobody else is let in.
  void TurnAuthenticationOn(const std::string& user, const std::string& password,
                            const std::string& prefix);

 private:
  explicit EtcdProcess(EtcdProcessOptions options) : options_(std::move(options)) {}
  absl::Status Launch();

  const EtcdProcessOptions options_;
  const TempDir dir_;
  std::string endpoint_;
  std::unique_ptr<dev::ChildProcess> process_;
};

class EtcdTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = EtcdProcess::WhyNot(); !why.empty()) GTEST_SKIP() << why;
  }
  // Fails the test and returns nullptr when the options are refused.
  std::unique_ptr<master::EtcdClient> Connect(master::EtcdOptions options);

  const SteadyClock clock_ = {};
  TestLogger log_;
};

}  // namespace moonpool::etcd_tests
