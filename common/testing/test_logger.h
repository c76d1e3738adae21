// Captures log lines for a test to look at.
//
//   TestLogger log;
//   Thing thing(log.logger());
//   EXPECT_THAT(log.lines(), ElementsAre("warn bad frame peer=n1"));
#pragma once

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/log.h"

namespace moonpool {

// Thread-safe.
class TestLogger final : public LogSink {
 public:
  Logger& logger() { return logger_; }

  // "level message key=value ...", oldest first.
  std::vector<std::string> lines() const {
    absl::MutexLock lock(&mutex_);
    return lines_;
  }

  void Write(LogLevel level, absl::string_view message, LogFields fields) override {
    static constexpr const char* kNames[] = {"debug", "info", "warn", "error"};
    absl::MutexLock lock(&mutex_);
    lines_.push_back(
        absl::StrCat(kNames[static_cast<int>(level)], " ", FormatLogText(message, fields)));
  }

 private:
  Logger logger_{*this, LogLevel::kDebug};
  mutable absl::Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace moonpool
