// Logging: a fixed message and key-value pairs, one line on stderr.
//
//   Logger logger(LogOptions{}, "moonpool-node");
//   logger.Info("node joined", {{"node", name}, {"bytes", capacity_bytes}});
//     -> 2026-01-31T12:00:00.000123+0000 info node joined node=n1 bytes=4096
//
// ERROR: someone must act. WARN: degraded, continuing. INFO: a state changed. DEBUG: the rest.
// Never on the data path per operation; what a peer can trigger goes through a LogLimiter
// (common/log_limiter.h). Libraries take a Logger& in their constructor; there is no global one.
#pragma once

#include <concepts>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace moonpool {

enum class LogLevel { kDebug, kInfo, kWarn, kError };
enum class LogFormat { kText, kJson };

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
};

// One key and its value, turned into text at once: it borrows nothing but the key (a literal).
class LogField {
 public:
  LogField(absl::string_view key, absl::string_view value) : key_(key), text_(value) {}
  LogField(absl::string_view key, const std::string& value) : key_(key), text_(value) {}
  LogField(absl::string_view key, const char* value) : key_(key), text_(value) {}
  LogField(absl::string_view key, bool value)
      : key_(key), text_(value ? "true" : "false"), is_literal_(true) {}
  template <typename Number>
  requires(std::integral<Number> || std::floating_point<Number>)
      LogField(absl::string_view key, Number value)
      : key_(key), text_(absl::StrCat(value)), is_literal_(true) {}
  LogField(absl::string_view key, absl::Duration value)
      : key_(key), text_(absl::FormatDuration(value)) {}

  absl::string_view key() const { return key_; }
  const std::string& text() const { return text_; }
  bool is_literal() const { return is_literal_; }  // a JSON number or boolean, written bare

 private:
  absl::string_view key_;
  std::string text_;
  bool is_literal_ = false;
};

using LogFields = std::initializer_list<LogField>;

// "node joined node=n1 bytes=4096"; a value with spaces, quotes or control bytes is quoted.
std::string FormatLogText(absl::string_view message, LogFields fields);
// "\"message\":\"node joined\",\"node\":\"n1\",\"bytes\":4096": the members of a JSON object. Names
// are unique, also among those that a line begins with (time, level, program): a second one gets _.
std::string FormatLogJson(absl::string_view message, LogFields fields);

// Where lines go. Thread-safe.
class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void Write(LogLevel level, absl::string_view message, LogFields fields) = 0;
};

// Thread-safe. Cheap to call when the level is off, except for the fields the caller built.
class Logger {
 public:
  // Lines to stderr.
  Logger(const LogOptions& options, absl::string_view program);
  // Lines to `sink`, which is borrowed.
  Logger(LogSink& sink, LogLevel level) : sink_(&sink), level_(level) {}
  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  // Swallows everything: for code that has nobody to tell.
  static Logger& Null();

  bool enabled(LogLevel level) const { return level >= level_; }

  void Error(absl::string_view message, LogFields fields = {}) const {
    Write(LogLevel::kError, message, fields);
  }
  void Warn(absl::string_view message, LogFields fields = {}) const {
    Write(LogLevel::kWarn, message, fields);
  }
  void Info(absl::string_view message, LogFields fields = {}) const {
    Write(LogLevel::kInfo, message, fields);
  }
  void Debug(absl::string_view message, LogFields fields = {}) const {
    Write(LogLevel::kDebug, message, fields);
  }
  void Write(LogLevel level, absl::string_view message, LogFields fields) const {
    if (enabled(level)) sink_->Write(level, message, fields);
  }

 private:
  std::unique_ptr<LogSink> owned_sink_;
  LogSink* sink_;
  LogLevel level_;
};

}  // namespace moonpool
