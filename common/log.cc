#include "common/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_format.h"

namespace moonpool {
namespace {

// Length of the UTF-8 sequence that starts at `text`, 0 when it is none.
size_t Utf8SequenceLength(absl::string_view text) {
  const auto lead = static_cast<uint8_t>(text.front());
  size_t length = 0;
  if (lead < 0x80) length = 1;
  if (lead >= 0xc2 && lead < 0xe0) length = 2;
  if (lead >= 0xe0 && lead < 0xf0) length = 3;
  if (lead >= 0xf0 && lead < 0xf5) length = 4;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<uint8_t>(text[i]) & 0xc0) != 0x80) return 0;
  }
  return length;
}

// Keys are any bytes and peers choose them: what is no printable text is escaped, so that a value
// can neither break a line in two nor colour a terminal.
void AppendEscaped(absl::string_view text, std::string* out) {
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength(text);
    const char c = text.front();
    const auto byte = static_cast<uint8_t>(c);
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (length == 0 || byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(out, "\\u%04x", byte);
    } else {
      out->append(text.data(), length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
}

void AppendQuoted(absl::string_view text, std::string* out) {
  out->push_back('"');
  AppendEscaped(text, out);
  out->push_back('"');
}

bool IsPlainWord(absl::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '=') return false;
  }
  return true;
}

// JSON has no word for these two; a bare nan would make the line unreadable.
bool IsJsonLiteral(const LogField& field) {
  return field.is_literal() && field.text() != "nan" && field.text() != "-nan" &&
         field.text() != "inf" && field.text() != "-inf";
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarn: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

class StderrSink final : public LogSink {
 public:
  StderrSink(LogFormat format, absl::string_view program)
      : format_(format),
        logger_(std::string(program), std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    logger_.set_level(spdlog::level::debug);  // Logger has filtered already
    logger_.set_pattern(format == LogFormat::kJson
                            ? R"({"time":"%Y-%m-%dT%H:%M:%S.%f%z","level":"%l","program":"%n",%v})"
                            : "%Y-%m-%dT%H:%M:%S.%f%z %l %v");
  }

  void Write(LogLevel level, absl::string_view message, LogFields fields) override {
    const std::string line = format_ == LogFormat::kJson ? FormatLogJson(message, fields)
                                                         : FormatLogText(message, fields);
    logger_.log(ToSpdlog(level), line);
  }

 private:
  const LogFormat format_;
  spdlog::logger logger_;
};

class NullSink final : public LogSink {
 public:
  void Write(LogLevel, absl::string_view, LogFields) override {}
};

}  // namespace

std::string FormatLogText(absl::string_view message, LogFields fields) {
  std::string line;
  AppendEscaped(message, &line);
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.key(), "=");
    if (IsPlainWord(field.text())) {
      line.append(field.text());
    } else {
      AppendQuoted(field.text(), &line);
    }
  }
  return line;
}

std::string FormatLogJson(absl::string_view message, LogFields fields) {
  std::string line = "\"message\":";
  AppendQuoted(message, &line);
  std::vector<std::string> taken = {"time", "level", "program", "message"};
  for (const LogField& field : fields) {
    // Readers of JSON keep one of two members of a name, and which one is up to them.
    taken.emplace_back(field.key());
    while (std::count(taken.begin(), taken.end(), taken.back()) > 1) taken.back().push_back('_');
    line.push_back(',');
    AppendQuoted(taken.back(), &line);
    line.push_back(':');
    if (IsJsonLiteral(field)) {
      line.append(field.text());
    } else {
      AppendQuoted(field.text(), &line);
    }
  }
  return line;
}

Logger::Logger(const LogOptions& options, absl::string_view program)
    : owned_sink_(std::make_unique<StderrSink>(options.format, program)),
      sink_(owned_sink_.get()),
      level_(options.level) {}

Logger::~Logger() = default;

Logger& Logger::Null() {
  static NullSink sink;
  static Logger logger(sink, LogLevel::kError);
  return logger;
}

}  // namespace moonpool
