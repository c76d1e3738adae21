// End-to-end tests: real processes on loopback, on free ports, in directories of their own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/dev_cluster/dev_cluster.h"
#include "gtest/gtest.h"
#include "moonpool/client.h"
#include "nlohmann/json.hpp"
#include "tests/harness/content.h"
#include "tests/harness/wait.h"

namespace moonpool::e2e {

using harness::ContentOf;
using harness::Eventually;
using harness::HoldsContentOf;
using harness::kPatience;

// A directory that goes with the test.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

struct CliResult {
  int exit_code = -1;
  std::string out;
  std::string err;
  // Of `out`; a discarded value when it is no JSON.
  nlohmann::json Json() const { return nlohmann::json::parse(out, nullptr, false); }
};

// A cluster, and the means to use it as a user would.
class Pool {
 public:
  // Fails the test and returns nullptr when it does not come up.
  static std::unique_ptr<Pool> Start(dev::DevClusterOptions options);

  dev::DevCluster& cluster() { return *cluster_; }
  const std::string& master() const { return cluster_->master_address(); }
  std::unique_ptr<Client> Connect(ClientOptions options = {}) const;
  // The `moonpool` program with --master of this pool.
  CliResult Cli(std::vector<std::string> args, const std::string& input = "",
                const std::string& output_path = "") const;
  nlohmann::json Status() const { return Cli({"status", "--json"}).Json(); }

 private:
  explicit Pool(std::unique_ptr<dev::DevCluster> cluster) : cluster_(std::move(cluster)) {}
  std::unique_ptr<dev::DevCluster> cluster_;
};

// Any program of this build, by its path.
CliResult RunProgram(const std::string& program, std::vector<std::string> args,
                     const std::string& input = "", const std::string& output_path = "");
// The same as Pool::Cli without a pool. What goes to `output_path` is not read back; "" = into the
// result.
CliResult RunCli(std::vector<std::string> args, const std::string& input = "",
                 const std::string& output_path = "");

// SIGSTOP, and the wait until the process has stopped: the signal is on its way for a while, and
// until it is there the process goes on answering. Fails the test when it does not stop.
void StopInPlace(const dev::ChildProcess& child);

// Where the programs under test lie.
std::string ProgramDir();

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& bytes);

}  // namespace moonpool::e2e
