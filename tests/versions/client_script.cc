#include "tests/versions/client_script.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::versions {
namespace {

constexpr char kFingerprint[] = "model-x";
const std::string kKeys[] = {"block-0", "block-1"};

std::string ValueOf(size_t block) {
  std::string value(block == 0 ? 100 : 700, '\0');
  for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 7 + block);
  return value;
}

ConstBuffer BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

CallOptions Patient() { return {.timeout = absl::Seconds(20), .cancel = {}}; }

absl::Status Expect(bool is_so, absl::string_view what) {
  return is_so ? absl::OkStatus() : absl::InternalError(what);
}

}  // namespace

client::SessionOptions OptionsOf(uint64_t client, transport::Transport& transport) {
  client::SessionOptions options;
  options.name_space = "blocks";
  options.client_id = client;
  options.seed = client;
  options.peers.paths = {{.transport = &transport, .same_host_only = false}};
  return options;
}

absl::Status Write(client::CoreClient& first) {
  RETURN_IF_ERROR(Annotate(first.OpenNamespace(kFingerprint, Patient()), "open"));
  const std::string values[] = {ValueOf(0), ValueOf(1)};
  const std::vector<PutItem> items = {
      {.key = kKeys[0], .value = {BytesOf(values[0])}, .parent = ""},
      {.key = kKeys[1], .value = {BytesOf(values[1])}, .parent = kKeys[0]}};
  for (const absl::Status& status : first.PutMany(items, {.call = Patient()})) {
    RETURN_IF_ERROR(Annotate(status, "put"));
  }
  return absl::OkStatus();
}

absl::Status ReadAndRemove(client::CoreClient& second) {
  RETURN_IF_ERROR(Annotate(second.OpenNamespace(kFingerprint, Patient()), "open"));
  const std::vector<std::string> keys(std::begin(kKeys), std::end(kKeys));
  ASSIGN_OR_RETURN(const PrefixMatch match, second.MatchPrefix(keys, {.call = Patient()}));
  RETURN_IF_ERROR(Expect(match.matched == 2, "not the whole chain is there"));
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSIGN_OR_RETURN(const std::string value, second.Get(keys[i], {.call = Patient()}));
    RETURN_IF_ERROR(Expect(value == ValueOf(i), "another value"));
  }
  const std::vector<std::string> one_missing = {keys[0], "never"};
  const std::vector<absl::Status> exists = second.Exists(one_missing, Patient());
  RETURN_IF_ERROR(Annotate(exists[0], "exists"));
  RETURN_IF_ERROR(Expect(absl::IsNotFound(exists[1]), "what was never stored exists"));
  RETURN_IF_ERROR(Expect(
      ReasonOf(second.Get("never", {.call = Patient()}).status()) == ErrorReason::kNeverStored,
      "what was never stored is missed for another reason"));
  const std::vector<std::string> leaf = {keys[1]};
  return Annotate(second.Remove(leaf, Patient())[0], "remove");
}

}  // namespace moonpool::versions
