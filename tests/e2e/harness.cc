#include "tests/e2e/harness.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/error.h"

namespace moonpool::e2e {
namespace {

constexpr absl::Duration kCliTimeout = absl::Seconds(50);

}  // namespace

TempDir::TempDir() : path_(testing::TempDir() + "moonpool-e2e-XXXXXX") {
  EXPECT_NE(mkdtemp(path_.data()), nullptr);
}
TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void StopInPlace(const dev::ChildProcess& child) {
  ASSERT_EQ(kill(child.pid(), SIGSTOP), 0);
  EXPECT_TRUE(Eventually([&child] {
    // Zero when there is nothing to tell yet. WSTOPPED leaves the end of the child to its owner.
    siginfo_t info = {};
    return waitid(P_PID, static_cast<id_t>(child.pid()), &info, WSTOPPED | WNOHANG) == 0 &&
           info.si_pid == child.pid();
  })) << child.name()
      << " does not stop";
}

std::string ProgramDir() { return MOONPOOL_PROGRAM_DIR; }

std::string ReadFile(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

CliResult RunCli(std::vector<std::string> args, const std::string& input,
                 const std::string& output_path) {
  return RunProgram(ProgramDir() + "/moonpool", std::move(args), input, output_path);
}

CliResult RunProgram(const std::string& program, std::vector<std::string> args,
                     const std::string& input, const std::string& output_path) {
  const TempDir dir;
  WriteFile(dir.File("in"), input);
  auto child = dev::ChildProcess::Start(
      {.name = program,
       .program = program,
       .args = std::move(args),
       .log_path = dir.File("err"),
       .input_path = dir.File("in"),
       .output_path = output_path.empty() ? dir.File("out") : output_path});
  CliResult result;
  if (!child.ok()) {
    ADD_FAILURE() << Describe(child.status());
    return result;
  }
  EXPECT_TRUE((*child)->WaitForExit(kCliTimeout)) << program << " does not end";
  const int status = (*child)->Poll().value_or(-1);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (output_path.empty()) result.out = ReadFile(dir.File("out"));
  result.err = ReadFile(dir.File("err"));
  return result;
}

std::unique_ptr<Pool> Pool::Start(dev::DevClusterOptions options) {
  options.program_dir = ProgramDir();
  auto cluster = dev::DevCluster::Start(std::move(options));
  if (!cluster.ok()) {
    ADD_FAILURE() << Describe(cluster.status());
    return nullptr;
  }
  return std::unique_ptr<Pool>(new Pool(*std::move(cluster)));
}

std::unique_ptr<Client> Pool::Connect(ClientOptions options) const {
  options.masters = {master()};
  if (!options.on_warning) options.on_warning = [](absl::string_view) {};
  auto client = Client::Connect(std::move(options));
  if (!client.ok()) {
    ADD_FAILURE() << Describe(client.status());
    return nullptr;
  }
  return *std::move(client);
}

CliResult Pool::Cli(std::vector<std::string> args, const std::string& input,
                    const std::string& output_path) const {
  args.insert(args.begin(), {"--master", master()});
  return RunCli(std::move(args), input, output_path);
}

}  // namespace moonpool::e2e
