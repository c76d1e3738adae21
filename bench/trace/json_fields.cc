#include "bench/trace/json_fields.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace moonpool::trace {
namespace {

// Parses without building anything, to learn why and where the text is not JSON.
class ErrorFinder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    cause_ = absl::StrCat("at byte ", position, ": ", error.what());
    return false;
  }
  const std::string& cause() const { return cause_; }

 private:
  std::string cause_ = "cause unknown";
};

absl::Status FieldError(const char* name, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("field \"", name, "\": expected ", expected));
}

const Json* Find(const Json& object, const char* name) {
  const auto it = object.find(name);
  return it == object.end() ? nullptr : &*it;
}

}  // namespace

absl::StatusOr<Json> ParseJson(absl::string_view text) {
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_discarded()) return json;
  ErrorFinder finder;
  Json::sax_parse(text.begin(), text.end(), &finder);
  return absl::InvalidArgumentError(absl::StrCat("not JSON, ", finder.cause()));
}

absl::StatusOr<uint64_t> UintField(const Json& object, const char* name, uint64_t max) {
  const Json* field = Find(object, name);
  if (field == nullptr || !field->is_number_unsigned() || field->get<uint64_t>() > max) {
    return FieldError(name, absl::StrCat("an integer from 0 to ", max));
  }
  return field->get<uint64_t>();
}

absl::StatusOr<absl::Duration> TimeField(const Json& object, const char* name,
                                         absl::Duration unit) {
  const absl::Duration max = absl::Hours(24 * 365 * 100);
  const Json* field = Find(object, name);
  const double count = field != nullptr && field->is_number() ? field->get<double>() : -1;
  const absl::Duration time = count * unit;
  if (!(count >= 0) || time > max) return FieldError(name, "a time of at least 0");
  return time;
}

absl::StatusOr<std::vector<uint64_t>> IdsField(const Json& object, const char* name) {
  const Json* field = Find(object, name);
  if (field == nullptr || !field->is_array()) return FieldError(name, "an array of block ids");
  std::vector<uint64_t> ids;
  ids.reserve(field->size());
  for (const Json& id : *field) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= kBlockIdLimit) {
      return FieldError(name,
                        absl::StrCat("block ids that are integers from 0 to ", kBlockIdLimit - 1));
    }
    ids.push_back(id.get<uint64_t>());
  }
  return ids;
}

}  // namespace moonpool::trace
