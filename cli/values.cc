#include "cli/values.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/output/key_text.h"
#include "common/config/host_port.h"
#include "common/config/suggest.h"
#include "common/config/units.h"
#include "common/error.h"
#include "common/names.h"
#include "common/status_macros.h"
#include "common/types.h"

namespace moonpool::cli {
namespace {

constexpr absl::Duration kTimeoutMin = absl::Milliseconds(1);
constexpr absl::Duration kTimeoutMax = absl::Hours(24);

std::string RangeText(NumberRange range) {
  if (range.max == std::numeric_limits<uint64_t>::max()) {
    return absl::StrCat("a whole number, ", range.min, " or more");
  }
  return absl::StrCat("a whole number, ", range.min, " to ", range.max);
}

absl::Status Refused(const std::string& text, absl::string_view allowed) {
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not allowed; give ", allowed));
}

absl::Status CheckNumber(const std::string& text, NumberRange range) {
  uint64_t number = 0;
  const bool is_number = absl::SimpleAtoi(text, &number);
  if (is_number && number >= range.min && number <= range.max) return absl::OkStatus();
  return Refused(text, RangeText(range));
}

absl::Status CheckReal(const std::string& text, double min, double max) {
  double number = 0;
  if (absl::SimpleAtod(text, &number) && number >= min && number <= max) return absl::OkStatus();
  const bool is_open = max == std::numeric_limits<double>::max();
  return Refused(text, absl::StrCat("a number, ", min, is_open ? " or more" : " to ",
                                    is_open ? "" : absl::StrCat(max)));
}

// None of a size is a mistake, not a wish for what is usual.
absl::Status CheckBytes(const std::string& text) {
  ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(text));
  return bytes > 0 ? absl::OkStatus() : Refused(text, "1 byte or more");
}

absl::Status CheckTimeout(const std::string& text) {
  ASSIGN_OR_RETURN(const absl::Duration timeout, ParseDuration(text));
  if (timeout >= kTimeoutMin && timeout <= kTimeoutMax) return absl::OkStatus();
  return Refused(text, "1ms to 24h");
}

absl::Status CheckChoice(const std::string& text, const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return absl::OkStatus();
  const std::string nearest = NearestWord(text, choices);
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is none of ", absl::StrJoin(choices, ", "),
                   nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
}

absl::Status CheckText(const std::string& text) {
  if (!text.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("the value is empty; is a shell variable unset?");
}

absl::Status CheckKey(const std::string& text) {
  ASSIGN_OR_RETURN(const std::string key, KeyFromText(text));
  if (!key.empty() && key.size() <= kMaxKeyBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the key has ", key.size(), " bytes; a key has 1 to ", kMaxKeyBytes));
}

// A positional's name says what it takes.
std::string KeyTypeOf(const std::string& name) { return name[0] == '-' ? "KEY" : ""; }

CLI::Option* AddCheckedOption(CLI::App& app, const std::string& name, const std::string& help,
                              std::function<absl::Status(const std::string&)> check,
                              std::function<void(const std::string&)> set,
                              const std::string& type_name) {
  return app.add_option_function<std::string>(name, std::move(set), help)
      ->check(Accepts(std::move(check)))
      ->type_name(type_name);
}

}  // namespace

CLI::Validator Accepts(std::function<absl::Status(const std::string&)> check) {
  return CLI::Validator(
      [check = std::move(check)](std::string& text) {
        const absl::Status status = check(text);
        if (status.ok()) return std::string();
        const std::string hint = DetailOf(status).value_or(ErrorDetail()).hint;
        return absl::StrCat(status.message(), hint.empty() ? "" : "; ", hint);
      },
      "");  // the option's own text says what it takes
}

CLI::Option* AddNumberOption(CLI::App& app, const std::string& name, NumberRange range,
                             std::function<void(uint64_t)> set, const std::string& help) {
  return AddCheckedOption(
      app, name, help, [range](const std::string& text) { return CheckNumber(text, range); },
      [set = std::move(set)](const std::string& text) {
        uint64_t number = 0;
        if (absl::SimpleAtoi(text, &number)) set(number);
      },
      "N");
}

CLI::Option* AddRealOption(CLI::App& app, const std::string& name, double* value, double min,
                           double max, const std::string& help) {
  return AddCheckedOption(
      app, name, help, [min, max](const std::string& text) { return CheckReal(text, min, max); },
      [value](const std::string& text) { (void)absl::SimpleAtod(text, value); }, "X");
}

CLI::Option* AddBytesOption(CLI::App& app, const std::string& name, uint64_t* bytes,
                            const std::string& help) {
  return AddCheckedOption(
      app, name, help, CheckBytes, [bytes](const std::string& text) { *bytes = *ParseBytes(text); },
      "SIZE");
}

CLI::Option* AddTimeoutOption(CLI::App& app, const std::string& name, absl::Duration* timeout,
                              const std::string& help) {
  return AddCheckedOption(
      app, name, help, CheckTimeout,
      [timeout](const std::string& text) { *timeout = *ParseDuration(text); }, "DURATION");
}

CLI::Option* AddAddressOption(CLI::App& app, const std::string& name, std::string* address,
                              const std::string& help) {
  return AddCheckedOption(
      app, name, help, [](const std::string& text) { return ParseHostPort(text).status(); },
      [address](const std::string& text) { *address = text; }, "HOST:PORT");
}

CLI::Option* AddChoiceOption(CLI::App& app, const std::string& name, std::string* choice,
                             std::vector<std::string> choices, const std::string& help) {
  return AddCheckedOption(
      app, name, help,
      [choices = std::move(choices)](const std::string& text) {
        return CheckChoice(text, choices);
      },
      [choice](const std::string& text) { *choice = text; }, "NAME");
}

CLI::Option* AddTextOption(CLI::App& app, const std::string& name, std::string* text,
                           const std::string& help) {
  return AddCheckedOption(
      app, name, help, CheckText, [text](const std::string& value) { *text = value; }, "TEXT");
}

CLI::Option* AddNamespaceOption(CLI::App& app, const std::string& name, std::string* text,
                                const std::string& help) {
  return AddCheckedOption(
      app, name, help,
      [](const std::string& value) {
        RETURN_IF_ERROR(CheckText(value));
        return CheckNamespaceName(value);
      },
      [text](const std::string& value) { *text = value; }, "NAME");
}

CLI::Option* AddNodeOption(CLI::App& app, const std::string& name, std::string* text,
                           const std::string& help) {
  return AddCheckedOption(
      app, name, help,
      [](const std::string& value) {
        RETURN_IF_ERROR(CheckText(value));
        return CheckNodeName(value);
      },
      [text](const std::string& value) { *text = value; }, "NAME");
}

CLI::Option* AddKeyOption(CLI::App& app, const std::string& name, std::string* key,
                          const std::string& help) {
  return AddCheckedOption(
      app, name, help, CheckKey, [key](const std::string& text) { *key = *KeyFromText(text); },
      KeyTypeOf(name));
}

CLI::Option* AddKeysOption(CLI::App& app, const std::string& name, std::vector<std::string>* keys,
                           const std::string& help) {
  return app
      .add_option_function<std::vector<std::string>>(
          name,
          [keys](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) keys->push_back(*KeyFromText(text));
          },
          help)
      ->check(Accepts(CheckKey))
      ->type_name(KeyTypeOf(name));
}

CLI::Option* AddPrefixOption(CLI::App& app, const std::string& name, std::string* prefix,
                             const std::string& help) {
  return AddCheckedOption(
      app, name, help, [](const std::string& text) { return KeyFromText(text).status(); },
      [prefix](const std::string& text) { *prefix = *KeyFromText(text); }, "KEY");
}

}  // namespace moonpool::cli
