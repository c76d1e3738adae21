#include "common/config/config_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/check.h"
#include "common/config/host_port.h"
#include "common/config/units.h"
#include "common/log.h"
#include "common/status_macros.h"

namespace moonpool {
namespace {

absl::Status Expected(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", what));
}

absl::Status OutOfRange(absl::string_view range) {
  return absl::InvalidArgumentError(absl::StrCat("out of range, allowed ", range));
}

std::string RangeText(absl::string_view min, absl::string_view max, absl::string_view unit) {
  const std::string suffix = unit.empty() ? "" : absl::StrCat(" ", unit);
  return max.empty() ? absl::StrCat("at least ", min, suffix)
                     : absl::StrCat(min, "..", max, suffix);
}

absl::Status CheckPeerAddress(const std::string& text) {
  ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(text));
  if (parsed.port == 0) return absl::InvalidArgumentError("port 0 cannot be connected to");
  return absl::OkStatus();
}

}  // namespace

ConfigRow& ConfigTable::AddRow(absl::string_view key, absl::string_view help,
                               absl::string_view metavar, ConfigKind kind) {
  MP_CHECK(FindKey(key) == nullptr, "config key declared twice", key);
  const std::string flag = absl::StrCat("--", absl::StrReplaceAll(key, {{".", "-"}, {"_", "-"}}));
  MP_CHECK(FindFlag(flag) == nullptr, "two config keys with one flag", flag);
  ConfigRow& row = rows_.emplace_back();
  row.key = std::string(key);
  row.flag = flag;
  row.group = group_;
  row.help = std::string(help);
  row.metavar = std::string(metavar);
  row.kind = kind;
  return row;
}

void ConfigTable::FinishRow(ConfigRow& row) { row.default_value = row.get(); }

void ConfigTable::Bool(absl::string_view key, bool* field, absl::string_view help) {
  ConfigRow& row = AddRow(key, help, "", ConfigKind::kBool);
  row.set = [field](const ConfigValue& value) -> absl::Status {
    const bool* flag = std::get_if<bool>(&value);
    if (flag == nullptr) return Expected("true or false");
    *field = *flag;
    return absl::OkStatus();
  };
  row.get = [field] { return *field; };
  FinishRow(row);
}

void ConfigTable::AddInteger(absl::string_view key, ConfigRange<int64_t> range,
                             std::function<void(int64_t)> set, std::function<int64_t()> get,
                             absl::string_view help, absl::string_view unit) {
  ConfigRow& row = AddRow(key, help, "N", ConfigKind::kInteger);
  const bool is_open = range.max == std::numeric_limits<int64_t>::max();
  row.range = RangeText(absl::StrCat(range.min), is_open ? "" : absl::StrCat(range.max), unit);
  row.set = [range, set = std::move(set), text = row.range](const ConfigValue& value) {
    const int64_t* number = std::get_if<int64_t>(&value);
    if (number == nullptr) return Expected("an integer");
    if (*number < range.min || *number > range.max) return OutOfRange(text);
    set(*number);
    return absl::OkStatus();
  };
  row.get = [get = std::move(get)] { return get(); };
  FinishRow(row);
}

void ConfigTable::Real(absl::string_view key, double* field, ConfigRange<double> range,
                       absl::string_view help) {
  ConfigRow& row = AddRow(key, help, "X", ConfigKind::kReal);
  row.range = RangeText(absl::StrCat(range.min), absl::StrCat(range.max), "");
  row.set = [field, range, text = row.range](const ConfigValue& value) {
    double number = 0;
    if (const double* real = std::get_if<double>(&value)) {
      number = *real;
    } else if (const int64_t* whole = std::get_if<int64_t>(&value)) {
      number = static_cast<double>(*whole);
    } else {
      return Expected("a number");
    }
    // Written so that nan is out of range as well.
    if (!(number >= range.min && number <= range.max)) return OutOfRange(text);
    *field = number;
    return absl::OkStatus();
  };
  row.get = [field] { return *field; };
  FinishRow(row);
}

void ConfigTable::Bytes(absl::string_view key, uint64_t* field, ConfigRange<uint64_t> range,
                        absl::string_view help) {
  ConfigRow& row = AddRow(key, help, "SIZE", ConfigKind::kString);
  const bool is_open = range.max == std::numeric_limits<uint64_t>::max();
  row.range = RangeText(FormatBytes(range.min), is_open ? "" : FormatBytes(range.max), "");
  row.set = [field, range, text = row.range](const ConfigValue& value) -> absl::Status {
    uint64_t bytes = 0;
    if (const auto* spelled = std::get_if<std::string>(&value)) {
      ASSIGN_OR_RETURN(bytes, ParseBytes(*spelled));
    } else if (const auto* number = std::get_if<int64_t>(&value); number && *number >= 0) {
      bytes = static_cast<uint64_t>(*number);
    } else {
      return Expected("a size such as \"256MiB\"");
    }
    if (bytes < range.min || bytes > range.max) return OutOfRange(text);
    *field = bytes;
    return absl::OkStatus();
  };
  row.get = [field] { return FormatBytes(*field); };
  FinishRow(row);
}

void ConfigTable::Duration(absl::string_view key, absl::Duration* field,
                           ConfigRange<absl::Duration> range, absl::string_view help) {
  ConfigRow& row = AddRow(key, help, "DURATION", ConfigKind::kString);
  const bool is_open = range.max == absl::InfiniteDuration();
  row.range = RangeText(absl::FormatDuration(range.min),
                        is_open ? "" : absl::FormatDuration(range.max), "");
  row.set = [field, range, text = row.range](const ConfigValue& value) -> absl::Status {
    const auto* spelled = std::get_if<std::string>(&value);
    if (spelled == nullptr) return Expected("a duration such as \"2s\"");
    ASSIGN_OR_RETURN(const absl::Duration duration, ParseDuration(*spelled));
    if (duration < range.min || duration > range.max) return OutOfRange(text);
    *field = duration;
    return absl::OkStatus();
  };
  row.get = [field] { return absl::FormatDuration(*field); };
  FinishRow(row);
}

namespace {

// Rows whose field is the string itself, after `check` has agreed.
void BindString(ConfigRow& row, std::string* field,
                std::function<absl::Status(const std::string&)> check) {
  row.set = [field, check = std::move(check)](const ConfigValue& value) -> absl::Status {
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) return Expected("a string");
    RETURN_IF_ERROR(check(*text));
    *field = *text;
    return absl::OkStatus();
  };
  row.get = [field] { return *field; };
}

void BindList(ConfigRow& row, std::vector<std::string>* field,
              std::function<absl::Status(const std::string&)> check, bool may_be_empty) {
  row.set = [field, check = std::move(check),
             may_be_empty](const ConfigValue& value) -> absl::Status {
    const auto* list = std::get_if<std::vector<std::string>>(&value);
    if (list == nullptr) return Expected("an array of strings");
    if (list->empty() && !may_be_empty) return Expected("at least one");
    for (const std::string& item : *list) RETURN_IF_ERROR(check(item));
    *field = *list;
    return absl::OkStatus();
  };
  row.get = [field] { return *field; };
}

absl::Status AnyText(const std::string&) { return absl::OkStatus(); }

}  // namespace

void ConfigTable::Text(absl::string_view key, std::string* field, absl::string_view help) {
  ConfigRow& row = AddRow(key, help, "TEXT", ConfigKind::kString);
  BindString(row, field, AnyText);
  FinishRow(row);
}

void ConfigTable::Secret(absl::string_view key, std::string* field, absl::string_view help) {
  ConfigRow& row = AddRow(key, help, "TEXT", ConfigKind::kString);
  row.is_secret = true;
  BindString(row, field, AnyText);
  FinishRow(row);
}

void ConfigTable::TextList(absl::string_view key, std::vector<std::string>* field,
                           absl::string_view help) {
  ConfigRow& row = AddRow(key, help, "TEXT,...", ConfigKind::kList);
  BindList(row, field, AnyText, /*may_be_empty=*/true);
  FinishRow(row);
}

void ConfigTable::ListenAddress(absl::string_view key, std::string* field, absl::string_view help) {
  ConfigRow& row = AddRow(key, help, "HOST:PORT", ConfigKind::kString);
  BindString(row, field, [](const std::string& text) { return ParseHostPort(text).status(); });
  FinishRow(row);
}

void ConfigTable::PeerAddress(absl::string_view key, std::string* field, absl::string_view help) {
  ConfigRow& row = AddRow(key, help, "HOST:PORT", ConfigKind::kString);
  const bool may_be_empty = field->empty();
  BindString(row, field, [may_be_empty](const std::string& text) {
    return text.empty() && may_be_empty ? absl::OkStatus() : CheckPeerAddress(text);
  });
  FinishRow(row);
}

void ConfigTable::PeerAddresses(absl::string_view key, std::vector<std::string>* field,
                                absl::string_view help) {
  ConfigRow& row = AddRow(key, help, "HOST:PORT,...", ConfigKind::kList);
  BindList(row, field, CheckPeerAddress, /*may_be_empty=*/field->empty());
  FinishRow(row);
}

void ConfigTable::AddChoice(absl::string_view key, std::vector<std::string> names,
                            std::function<void(size_t)> set, std::function<size_t()> get,
                            absl::string_view help) {
  ConfigRow& row = AddRow(key, help, absl::StrJoin(names, "|"), ConfigKind::kString);
  row.range = absl::StrJoin(names, ", ");
  row.set = [names, set = std::move(set), text = row.range](const ConfigValue& value) {
    const auto* name = std::get_if<std::string>(&value);
    if (name == nullptr) return Expected(absl::StrCat("one of ", text));
    const auto found = std::find(names.begin(), names.end(), *name);
    if (found == names.end()) return Expected(absl::StrCat("one of ", text));
    set(static_cast<size_t>(found - names.begin()));
    return absl::OkStatus();
  };
  row.get = [names, get = std::move(get)] { return names[get()]; };
  FinishRow(row);
}

void ConfigTable::Choice(absl::string_view key, std::string* field,
                         std::vector<std::string> choices, absl::string_view help) {
  AddChoice(
      key, choices, [field, choices](size_t index) { *field = choices[index]; },
      [field, choices] {
        const auto found = std::find(choices.begin(), choices.end(), *field);
        MP_CHECK(found != choices.end(), "the default is none of the choices", *field);
        return static_cast<size_t>(found - choices.begin());
      },
      help);
}

void ConfigTable::Positional(absl::string_view name, std::string* field, absl::string_view help) {
  positionals_.push_back({std::string(name), std::string(help), field, nullptr, true});
}

void ConfigTable::OptionalPositional(absl::string_view name, std::string* field,
                                     absl::string_view help) {
  positionals_.push_back({std::string(name), std::string(help), field, nullptr, false});
}

void ConfigTable::RestPositional(absl::string_view name, std::vector<std::string>* field,
                                 absl::string_view help) {
  positionals_.push_back({std::string(name), std::string(help), nullptr, field, false});
}

const ConfigRow* ConfigTable::FindKey(absl::string_view key) const {
  const auto found = std::find_if(rows_.begin(), rows_.end(),
                                  [key](const ConfigRow& row) { return row.key == key; });
  return found == rows_.end() ? nullptr : &*found;
}

const ConfigRow* ConfigTable::FindFlag(absl::string_view flag) const {
  const auto found = std::find_if(rows_.begin(), rows_.end(),
                                  [flag](const ConfigRow& row) { return row.flag == flag; });
  return found == rows_.end() ? nullptr : &*found;
}

void DescribeLog(LogOptions& options, ConfigTable& table) {
  table.Group("Logging");
  table.Choice("log.level", &options.level,
               {{"debug", LogLevel::kDebug},
                {"info", LogLevel::kInfo},
                {"warn", LogLevel::kWarn},
                {"error", LogLevel::kError}},
               "The least severe lines written to stderr.");
  table.Choice("log.format", &options.format,
               {{"text", LogFormat::kText}, {"json", LogFormat::kJson}},
               "One line of text, or one JSON object per line.");
}

}  // namespace moonpool
