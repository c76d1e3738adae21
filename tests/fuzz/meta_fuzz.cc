// Any records in the meta store: each is read, left alone or quarantined, whatever stands beside
// it; and what was read is written back as it was.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/check.h"
#include "master/meta/records.h"
#include "tests/fuzz/byte_feed.h"

namespace moonpool::master {
namespace {

constexpr size_t kRecordsMax = 256;

std::vector<MetaRecord> RecordsFrom(ByteFeed& feed) {
  constexpr absl::string_view kKinds[] = {"",         "term",     "namespace/", "node/",
                                          "removed/", "registry", "drain/"};
  std::vector<MetaRecord> records;
  while (!feed.empty() && records.size() < kRecordsMax) {
    const absl::string_view kind = feed.OneOf(kKinds);
    std::string key = absl::StrCat(kind, feed.Bytes());
    records.push_back({.key = std::move(key), .value = std::string(feed.Bytes())});
  }
  return records;
}

void CheckWrittenBack(const DurableChange& read, const std::vector<MetaRecord>& records) {
  const MetaChange change = EncodeChange(read);
  MP_CHECK(change.value.has_value(), "a deletion was read", change.key);
  const MetaRecord record{change.key, *change.value};
  MP_CHECK(std::find(records.begin(), records.end(), record) != records.end(), "not what was there",
           change.key);
}

void CheckDecoded(const std::vector<MetaRecord>& records) {
  const DecodedState decoded = DecodeRecords(records);
  const DurableState& state = decoded.state;
  for (const DurableNamespace& each : state.namespaces) CheckWrittenBack(each, records);
  for (const DurableNode& each : state.nodes) CheckWrittenBack(each, records);
  for (const DurableRemoval& each : state.removals) CheckWrittenBack(each, records);
  for (const DurableDrain& each : state.drains) CheckWrittenBack(each, records);
  if (state.term.value > 0) CheckWrittenBack(state.term, records);
  if (state.is_registry_closed) CheckWrittenBack(RegistryClosed{}, records);
  const auto is_single = [](const MetaRecord& record) {
    return record.key == "term" || record.key == "registry";
  };
  const auto singles =
      static_cast<size_t>(std::count_if(records.begin(), records.end(), is_single));
  // Records of one key aside, which replace each other.
  const size_t accounted = state.namespaces.size() + state.nodes.size() + state.removals.size() +
                           state.drains.size() + decoded.unknown + decoded.quarantined.size();
  MP_CHECK(accounted <= records.size() && accounted + singles >= records.size(), "records",
           accounted);
}

}  // namespace
}  // namespace moonpool::master

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  moonpool::ByteFeed feed(data, size);
  moonpool::master::CheckDecoded(moonpool::master::RecordsFrom(feed));
  return 0;
}
