// End-to-end tests: real processes on loopback, on free ports, in directories of their own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/dev_cluster/dev_cluster.h"
#include "gtest/gtest.h"
#include "moonpool/client.h"
#include "nlohmann/json.hpp"

namespace moonpool::e2e {

// How long anything may take before a test gives up on it.
inline constexpr absl::Duration kPatience = absl::Seconds(20);

// True as soon as `predicate` is; false when it never was within kPatience.
bool Eventually(const std::function<bool()>& predicate);

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

// Bytes that belong to a key and to no other one.
std::vector<std::byte> ContentOf(const std::string& key, size_t size);
bool HoldsContentOf(const std::string& key, absl::Span<const std::byte> bytes);

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& bytes);

}  // namespace moonpool::e2e
