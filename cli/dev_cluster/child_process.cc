#include "cli/dev_cluster/child_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::dev {
namespace {

constexpr size_t kLogLinesShown = 8;

int PollMillis(absl::Duration left) {
  const absl::Duration bounded = std::clamp(left, absl::ZeroDuration(), absl::Minutes(1));
  return static_cast<int>(absl::ToInt64Milliseconds(bounded)) + 1;
}

// Descriptors that become the standard ones; log -1: as it is.
struct Streams {
  int input;
  int output;
  int log;
};

absl::StatusOr<UniqueFd> Open(const std::string& path, int flags) {
  UniqueFd fd(open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("open ", path));
  return fd;
}

// Runs in the child between fork and exec: async-signal-safe calls only.
[[noreturn]] void BecomeProgram(const char* program, char* const* argv, pid_t parent,
                                const Streams& streams) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before the line above
  setpgid(0, 0);                        // Ctrl-C reaches the parent, which ends us in order
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal : {SIGINT, SIGTERM, SIGPIPE, SIGHUP}) ::signal(signal, SIG_DFL);
  dup2(streams.input, STDIN_FILENO);
  dup2(streams.output, STDOUT_FILENO);
  if (streams.log >= 0) dup2(streams.log, STDERR_FILENO);
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  execv(program, argv);
  constexpr char kMessage[] = "cannot execute the program\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  _exit(127);
}

}  // namespace

std::string DescribeWaitStatus(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    return absl::StrCat("signal ", signal, " (", strsignal(signal), ")");
  }
  return absl::StrCat("exit code ", WEXITSTATUS(wait_status));
}

std::string TailOfFile(const std::string& path, size_t lines) {
  std::ifstream file(path);
  std::deque<std::string> last;
  for (std::string line; std::getline(file, line);) {
    last.push_back(line);
    if (last.size() > lines) last.pop_front();
  }
  std::string text;
  for (const std::string& line : last) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", "  ", line);
  }
  return text;
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(ChildOptions options) {
  if (access(options.program.c_str(), X_OK) != 0) {
    return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kUnspecified,
                     absl::StrCat("no program ", options.program),
                     {.hint = "moonpool starts the programs that lie beside it"});
  }
  std::unique_ptr<ChildProcess> child(new ChildProcess(std::move(options)));
  RETURN_IF_ERROR(child->Spawn());
  return child;
}

absl::Status ChildProcess::Spawn() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  output_ = UniqueFd(ends[0]);
  UniqueFd child_output(ends[1]);
  if (!options_.output_path.empty()) {
    ASSIGN_OR_RETURN(child_output, Open(options_.output_path, O_WRONLY | O_CREAT | O_TRUNC));
  }
  ASSIGN_OR_RETURN(const UniqueFd input, Open(options_.input_path, O_RDONLY));
  UniqueFd log;
  if (!options_.log_path.empty()) {
    ASSIGN_OR_RETURN(log, Open(options_.log_path, O_WRONLY | O_CREAT | O_APPEND));
  }
  std::vector<char*> argv = {const_cast<char*>(options_.program.c_str())};
  for (const std::string& arg : options_.args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);

  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) return absl::ErrnoToStatus(errno, "fork");
  if (pid_ == 0) {
    BecomeProgram(options_.program.c_str(), argv.data(), parent,
                  {.input = input.get(), .output = child_output.get(), .log = log.get()});
  }
  exit_fd_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  if (!exit_fd_.valid()) return absl::ErrnoToStatus(errno, "pidfd_open");
  fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  return absl::OkStatus();
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0 && running()) Terminate(absl::ZeroDuration());
}

bool ChildProcess::ReadOutput() {
  char buffer[4096];
  while (true) {
    const ssize_t got = read(output_.get(), buffer, sizeof(buffer));
    if (got > 0) {
      pending_.append(buffer, static_cast<size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      return got != 0;
    }
  }
}

absl::StatusOr<std::string> ChildProcess::WaitForLine(absl::string_view prefix,
                                                      absl::Duration timeout, int stop_fd) {
  const SteadyClock clock;
  const absl::Time deadline = clock.Now() + timeout;
  while (true) {
    const bool open = ReadOutput();
    for (size_t end; (end = pending_.find('\n')) != std::string::npos;) {
      const std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      if (absl::string_view(line).substr(0, prefix.size()) == prefix) return line;
    }
    if (!open) {
      WaitForExit(absl::Seconds(1));
      return HasRefusedItsSettings() ? absl::InvalidArgumentError(DescribeEnd())
                                     : absl::UnavailableError(DescribeEnd());
    }
    const absl::Duration left = deadline - clock.Now();
    if (left <= absl::ZeroDuration()) {
      return MakeError(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline,
                       absl::StrCat(name(), " was not ready within ", absl::FormatDuration(timeout),
                                    LastWords()));
    }
    pollfd waits[] = {{output_.get(), POLLIN, 0}, {stop_fd, POLLIN, 0}};
    poll(waits, 2, PollMillis(left));
    if (waits[1].revents != 0) return absl::CancelledError("stopped while starting");
  }
}

std::optional<int> ChildProcess::Poll() {
  if (!wait_status_.has_value()) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) wait_status_ = status;
  }
  return wait_status_;
}

void ChildProcess::Signal(int signal) {
  if (running()) kill(pid_, signal);
}

bool ChildProcess::WaitForExit(absl::Duration timeout) {
  const SteadyClock clock;
  const absl::Time deadline = clock.Now() + timeout;
  while (running()) {
    const absl::Duration left = deadline - clock.Now();
    if (left <= absl::ZeroDuration()) return false;
    pollfd wait = {exit_fd_.get(), POLLIN, 0};
    poll(&wait, 1, PollMillis(left));
  }
  return true;
}

bool ChildProcess::Terminate(absl::Duration grace) {
  Signal(SIGTERM);
  if (WaitForExit(grace)) return true;
  Signal(SIGKILL);
  WaitForExit(absl::InfiniteDuration());
  return false;
}

std::string ChildProcess::DescribeEnd() {
  const std::optional<int> status = Poll();
  return absl::StrCat(name(),
                      status.has_value() ? absl::StrCat(" ended: ", DescribeWaitStatus(*status))
                                         : " closed its output",
                      LastWords());
}

bool ChildProcess::HasRefusedItsSettings() {
  constexpr int kExitBadSettings = 2;
  const std::optional<int> status = Poll();
  return status.has_value() && WIFEXITED(*status) && WEXITSTATUS(*status) == kExitBadSettings;
}

std::string ChildProcess::LastWords() const {
  if (options_.log_path.empty()) return "";
  return absl::StrCat("; its last words:\n", TailOfFile(options_.log_path, kLogLinesShown));
}

}  // namespace moonpool::dev
