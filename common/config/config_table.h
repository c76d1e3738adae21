// One declarative table per program: TOML key <-> flag <-> field <-> help <-> range.
//
//   struct NodeOptions {
//     std::string data_listen = "127.0.0.1:0";
//     uint64_t dram_bytes = kGiB;
//     absl::Duration heartbeat = absl::Seconds(1);
//   };
//
//   void Describe(NodeOptions& options, ConfigTable& table) {
//     table.Group("Data plane");
//     table.ListenAddress("data.listen", &options.data_listen, "Where clients move bytes.");
//     table.Bytes("memory.dram", &options.dram_bytes, {kMiB, 64 * kTiB}, "Memory to lend.");
//     table.Duration("heartbeat.interval", &options.heartbeat,
//                    {absl::Milliseconds(10), absl::Minutes(1)}, "How often to report.");
//   }
//
// A field's value when it is added is the default. "data.listen" is the flag --data-listen and, in
// a file, `listen = ...` under [data]. A flag beats the file, the file beats the default. Unknown
// keys, wrong types and values out of range are errors of one line that names the place.
// Every table also has --help, --version, --config, --print-config and --print-docs.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/config/config_row.h"

namespace moonpool {

// Both ends are allowed values.
template <typename T>
struct ConfigRange {
  T min;
  T max = std::numeric_limits<T>::max();
};
template <>
struct ConfigRange<absl::Duration> {
  absl::Duration min = absl::ZeroDuration();
  absl::Duration max = absl::InfiniteDuration();
};

struct ConfigText {
  struct Example {
    std::string command;
    std::string meaning;
  };
  std::string program;  // "moonpool-node", "moonpool replay"
  std::string summary;  // one sentence
  std::string version;
  std::vector<Example> examples = {};
  bool reads_file = true;  // offers --config and reads $MOONPOOL_CONFIG
};

// Fields are borrowed: they outlive the table. Not thread-safe.
class ConfigTable {
 public:
  explicit ConfigTable(ConfigText text) : text_(std::move(text)) {}

  // For the end of the help, by whoever runs the program: "0 ok, 1 failed".
  void SetExitCodes(absl::string_view exit_codes) { exit_codes_ = std::string(exit_codes); }

  // Heading of the rows that follow.
  void Group(absl::string_view title) { group_ = std::string(title); }

  void Bool(absl::string_view key, bool* field, absl::string_view help);
  template <std::integral T>
  void Int(absl::string_view key, T* field, ConfigRange<int64_t> range, absl::string_view help,
           absl::string_view unit = "");
  void Real(absl::string_view key, double* field, ConfigRange<double> range,
            absl::string_view help);
  void Bytes(absl::string_view key, uint64_t* field, ConfigRange<uint64_t> range,
             absl::string_view help);
  void Duration(absl::string_view key, absl::Duration* field, ConfigRange<absl::Duration> range,
                absl::string_view help);
  void Text(absl::string_view key, std::string* field, absl::string_view help);
  // Shown nowhere: not in logs, not by --print-config.
  void Secret(absl::string_view key, std::string* field, absl::string_view help);
  void TextList(absl::string_view key, std::vector<std::string>* field, absl::string_view help);
  // HOST:PORT; port 0 picks a free one.
  void ListenAddress(absl::string_view key, std::string* field, absl::string_view help);
  // HOST:PORT, port not 0; empty is allowed only when it is the default.
  void PeerAddress(absl::string_view key, std::string* field, absl::string_view help);
  // Not none, unless that is the default.
  void PeerAddresses(absl::string_view key, std::vector<std::string>* field,
                     absl::string_view help);
  template <typename E>
  requires std::is_enum_v<E>
  void Choice(absl::string_view key, E* field, std::vector<std::pair<std::string, E>> choices,
              absl::string_view help);

  // The same for a field that holds the name itself.
  void Choice(absl::string_view key, std::string* field, std::vector<std::string> choices,
              absl::string_view help);

  // Arguments without a flag, in this order; optional ones after required ones, the rest last.
  void Positional(absl::string_view name, std::string* field, absl::string_view help);
  void OptionalPositional(absl::string_view name, std::string* field, absl::string_view help);
  void RestPositional(absl::string_view name, std::vector<std::string>* field,
                      absl::string_view help);

  struct Outcome {
    bool should_exit = false;  // --help and its kin: print `output` to stdout, exit 0
    std::string output;
  };
  // `args` without the program's name. `default_file` is read when --config is absent; "" = none.
  absl::StatusOr<Outcome> Parse(absl::Span<const std::string> args,
                                absl::string_view default_file = "");

  // The same table fed from TOML text; `file_name` is only for messages. Never throws, whatever
  // the text. On an error some fields may have been written.
  absl::Status ApplyToml(absl::string_view toml, absl::string_view file_name);

  const ConfigText& text() const { return text_; }
  const std::vector<ConfigRow>& rows() const { return rows_; }

  std::string Help() const;
  // The effective config as a TOML file with comments; secrets are left out.
  std::string Toml() const;
  // The section of docs/OPERATIONS.md: one table per group.
  std::string DocsMarkdown() const;
  // What differs from the defaults, secrets redacted, for the log at start: (key, value).
  std::vector<std::pair<std::string, std::string>> ChangedSettings() const;

 private:
  struct PositionalArg {
    std::string name;
    std::string help;
    std::string* field = nullptr;
    std::vector<std::string>* rest = nullptr;
    bool is_required = false;
  };
  struct FlagUse {
    const ConfigRow* row;
    std::string shown;  // as typed, for messages
    std::string value;
  };
  struct CommandLine;

  ConfigRow& AddRow(absl::string_view key, absl::string_view help, absl::string_view metavar,
                    ConfigKind kind);
  void FinishRow(ConfigRow& row);
  void AddChoice(absl::string_view key, std::vector<std::string> names,
                 std::function<void(size_t)> set, std::function<size_t()> get,
                 absl::string_view help);
  void AddInteger(absl::string_view key, ConfigRange<int64_t> range,
                  std::function<void(int64_t)> set, std::function<int64_t()> get,
                  absl::string_view help, absl::string_view unit);

  const ConfigRow* FindKey(absl::string_view key) const;
  const ConfigRow* FindFlag(absl::string_view flag) const;
  absl::Status UnknownFlag(absl::string_view flag) const;
  absl::Status UnknownKey(absl::string_view key) const;
  bool IsGroup(absl::string_view key) const;
  absl::StatusOr<CommandLine> ReadCommandLine(absl::Span<const std::string> args) const;
  absl::Status ReadFlag(absl::Span<const std::string> args, size_t& index, CommandLine& line) const;
  absl::Status ApplyFlag(const FlagUse& use) const;
  absl::Status ApplyFile(const std::string& path);
  absl::Status ApplyPositionals(const std::vector<std::string>& values) const;

  ConfigText text_;
  std::string exit_codes_;
  std::string group_ = "Options";
  std::vector<ConfigRow> rows_;
  std::vector<PositionalArg> positionals_;
};

// The fields behind `common/log.h`, for every long-running program: log.level and log.format.
struct LogOptions;
void DescribeLog(LogOptions& options, ConfigTable& table);

template <std::integral T>
void ConfigTable::Int(absl::string_view key, T* field, ConfigRange<int64_t> range,
                      absl::string_view help, absl::string_view unit) {
  if (!std::in_range<T>(range.max)) {
    range.max = static_cast<int64_t>(std::numeric_limits<T>::max());
  }
  AddInteger(
      key, range, [field](int64_t value) { *field = static_cast<T>(value); },
      [field] { return static_cast<int64_t>(*field); }, help, unit);
}

template <typename E>
requires std::is_enum_v<E>
void ConfigTable::Choice(absl::string_view key, E* field,
                         std::vector<std::pair<std::string, E>> choices, absl::string_view help) {
  std::vector<std::string> names;
  std::vector<E> values;
  for (auto& [name, value] : choices) {
    names.push_back(name);
    values.push_back(value);
  }
  AddChoice(
      key, std::move(names), [field, values](size_t index) { *field = values[index]; },
      [field, values] {
        size_t index = 0;
        while (index + 1 < values.size() && values[index] != *field) ++index;
        return index;
      },
      help);
}

}  // namespace moonpool
