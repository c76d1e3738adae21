// Any words as a command line, of `moonpool` and of a daemon: what is accepted is within its range,
// what is not is an error with words for people, and what is written out reads back the same.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/output/key_text.h"
#include "cli/usage.h"
#include "common/check.h"
#include "common/config/config_table.h"
#include "common/config/host_port.h"
#include "common/config/units.h"
#include "common/error.h"

namespace moonpool {
namespace {

constexpr size_t kWordsMax = 64;

void CheckError(const absl::Status& status) {
  MP_CHECK(status.code() == absl::StatusCode::kInvalidArgument, "code", status.ToString());
  MP_CHECK(!status.message().empty(), "an error without words");
}

void ReadProgram(const std::vector<std::string>& words) {
  cli::Session session;
  CLI::App app("moonpool", "moonpool");
  app.require_subcommand(1);
  cli::AddConnectionOptions(app, session);
  cli::AddJsonFlag(app, session);
  cli::AddAllCommands(app, session);
  std::vector<const char*> argv = {"moonpool"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  const int argc = static_cast<int>(argv.size());
  const auto to_print = cli::ParseCommandLine(app, argc, argv.data());
  cli::WantsJson(argc, argv.data());
  if (!to_print.ok()) {
    CheckError(to_print.status());
    MP_CHECK(DetailOf(to_print.status()).has_value() && !DetailOf(to_print.status())->hint.empty(),
             "an error without a hint", to_print.status().message());
    return;
  }
  if (!to_print->empty()) return;
  MP_CHECK(session.run != nullptr, "nothing to run");
  MP_CHECK(session.timeout >= absl::Milliseconds(1) && session.timeout <= absl::Hours(24),
           "timeout", absl::FormatDuration(session.timeout));
  MP_CHECK(!session.name_space.empty() && !session.masters.empty(), "empty values");
  for (const std::string& master : session.masters) {
    MP_CHECK(ParseHostPort(master).ok(), "master", master);
  }
}

void ReadDaemon(const std::vector<std::string>& words) {
  std::string listen = "127.0.0.1:0";
  std::vector<std::string> masters;
  std::vector<std::string> names;
  uint64_t bytes = kGiB;
  absl::Duration interval = absl::Seconds(1);
  int threads = 2;
  double share = 0.9;
  bool verify = true;
  ConfigTable table({.program = "fuzz", .summary = "S.", .version = "1", .reads_file = false});
  table.ListenAddress("listen", &listen, "h");
  table.PeerAddresses("masters", &masters, "h");
  table.TextList("names", &names, "h");
  table.Bytes("dram", &bytes, {kMiB, kTiB}, "h");
  table.Duration("interval", &interval, {absl::Milliseconds(1), absl::Hours(1)}, "h");
  table.Int("threads", &threads, {1, 64}, "h");
  table.Real("share", &share, {0, 1}, "h");
  table.Bool("verify", &verify, "h");
  const auto outcome = table.Parse(words);
  if (!outcome.ok()) return CheckError(outcome.status());
  MP_CHECK(ParseHostPort(listen).ok(), "listen", listen);
  for (const std::string& master : masters) MP_CHECK(ParseHostPort(master).ok(), "peer", master);
  MP_CHECK(bytes >= kMiB && bytes <= kTiB, "dram", bytes);
  MP_CHECK(interval >= absl::Milliseconds(1) && interval <= absl::Hours(1), "interval");
  MP_CHECK(threads >= 1 && threads <= 64, "threads", threads);
  MP_CHECK(share >= 0 && share <= 1, "share", share);
}

template <typename T>
bool Is(const absl::StatusOr<T>& read, const T& expected) {
  return read.ok() && *read == expected;
}

void ReadWord(const std::string& word) {
  if (const auto bytes = ParseBytes(word); bytes.ok()) {
    MP_CHECK(Is(ParseBytes(FormatBytes(*bytes)), *bytes), "bytes", word);
  }
  if (const auto duration = ParseDuration(word); duration.ok()) {
    MP_CHECK(*duration >= absl::ZeroDuration() && *duration < absl::InfiniteDuration(), "duration",
             word);
    MP_CHECK(Is(ParseDuration(absl::FormatDuration(*duration)), *duration), "duration", word);
  }
  if (const auto address = ParseHostPort(word); address.ok()) {
    MP_CHECK(Is(ParseHostPort(address->ToString()), *address), "address", word);
  }
  const auto key = cli::KeyFromText(word);
  if (!key.ok()) CheckError(key.status());
  MP_CHECK(Is(cli::KeyFromText(cli::KeyToText(word)), word), "key", word);
}

}  // namespace
}  // namespace moonpool

// A word per line.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), data == nullptr ? 0 : size);
  std::vector<std::string> words = absl::StrSplit(text, '\n');
  if (words.size() > moonpool::kWordsMax) words.resize(moonpool::kWordsMax);
  for (const std::string& word : words) moonpool::ReadWord(word);
  moonpool::ReadDaemon(words);
  moonpool::ReadProgram(words);
  return 0;
}
