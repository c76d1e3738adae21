// One child program: started with its standard output on a pipe, dead when its parent thread is.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"

namespace moonpool::dev {

struct ChildOptions {
  std::string name;                      // for messages
  std::string program;                   // path
  std::vector<std::string> args;         // without argv[0]
  std::string log_path;                  // standard error is appended here; empty = inherited
  std::string input_path = "/dev/null";  // standard input
  std::string output_path = {};          // standard output goes here; empty = to WaitForLine
};

// How a process ended: "exit code 3", "signal 9 (Killed)".
std::string DescribeWaitStatus(int wait_status);

// Used by one thread, the one that started it: the kernel kills the child when that thread ends.
class ChildProcess {
 public:
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(ChildOptions options);
  ~ChildProcess();  // kills what still runs
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  const std::string& name() const { return options_.name; }
  pid_t pid() const { return pid_; }
  // Readable once the child has ended.
  int exit_fd() const { return exit_fd_.get(); }

  // The first line that starts with `prefix` on the child's standard output, without line end.
  // When it ended first (with how, and the end of its log): INVALID_ARGUMENT for exit code 2, by
  // which programs of ours refuse their settings, else UNAVAILABLE. DEADLINE_EXCEEDED.
  // `stop_fd` readable: CANCELLED; -1 = none.
  absl::StatusOr<std::string> WaitForLine(absl::string_view prefix, absl::Duration timeout,
                                          int stop_fd);

  // The wait status, once it has ended.
  std::optional<int> Poll();
  bool running() { return !Poll().has_value(); }
  void Signal(int signal);
  // Waits for the end; false when it still runs at the end of the timeout.
  bool WaitForExit(absl::Duration timeout);
  // SIGTERM, `grace`, SIGKILL; returns when the child is gone. True: it obeyed SIGTERM.
  bool Terminate(absl::Duration grace);

  // "NAME ended: exit code 1; its last words:\n  ...": for the message when it should not have.
  std::string DescribeEnd();

 private:
  explicit ChildProcess(ChildOptions options) : options_(std::move(options)) {}
  absl::Status Spawn();
  bool ReadOutput();  // false at the end of the output
  std::string LastWords() const;
  bool HasRefusedItsSettings();

  const ChildOptions options_;
  pid_t pid_ = -1;
  UniqueFd exit_fd_;
  UniqueFd output_;
  std::string pending_;  // output that makes no whole line yet
  std::optional<int> wait_status_;
};

// The last lines of a file, for messages.
std::string TailOfFile(const std::string& path, size_t lines);

}  // namespace moonpool::dev
