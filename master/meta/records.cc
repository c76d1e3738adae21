#include "master/meta/records.h"

#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/guard.h"

namespace moonpool::master {
namespace {

constexpr uint8_t kVersion = 1;
constexpr absl::string_view kTermKey = "term";
constexpr absl::string_view kRegistryKey = "registry";
constexpr absl::string_view kNamespacePrefix = "namespace/";
constexpr absl::string_view kNodePrefix = "node/";
constexpr absl::string_view kRemovedPrefix = "removed/";
constexpr absl::string_view kDrainPrefix = "drain/";
constexpr absl::string_view kSeparator("\0", 1);

class ValueWriter {
 public:
  ValueWriter() { Put(kVersion); }

  template <typename Number>
  ValueWriter& Put(Number number) {
    for (size_t i = 0; i < sizeof(number); ++i) {
      value_.push_back(static_cast<char>(uint64_t{number} >> (8 * i)));
    }
    return *this;
  }
  ValueWriter& PutRest(absl::string_view bytes) {
    value_.append(bytes.data(), bytes.size());
    return *this;
  }
  std::string Take() { return std::move(value_); }

 private:
  std::string value_;
};

// Reads after the version. What is missing reads as 0 and makes the value broken.
class ValueReader {
 public:
  explicit ValueReader(absl::string_view rest) : rest_(rest) {}

  template <typename Number>
  Number Get() {
    uint64_t number = 0;
    for (size_t i = 0; i < sizeof(Number); ++i) {
      if (rest_.empty()) {
        is_short_ = true;
        return 0;
      }
      number |= uint64_t{static_cast<uint8_t>(rest_.front())} << (8 * i);
      rest_.remove_prefix(1);
    }
    return static_cast<Number>(number);
  }
  absl::string_view GetRest() { return std::exchange(rest_, {}); }
  bool is_whole() const { return !is_short_ && rest_.empty(); }

 private:
  absl::string_view rest_;
  bool is_short_ = false;
};

std::string RemovedKey(absl::string_view name_space, absl::string_view key) {
  return absl::StrCat(kRemovedPrefix, name_space, kSeparator, key);
}

struct Encoder {
  MetaChange operator()(Term term) const {
    return {std::string(kTermKey), ValueWriter().Put(term.value).Take()};
  }
  MetaChange operator()(const RegistryClosed&) const {
    return {std::string(kRegistryKey), ValueWriter().Take()};
  }
  MetaChange operator()(const DurableNamespace& name_space) const {
    return {absl::StrCat(kNamespacePrefix, name_space.name),
            ValueWriter().PutRest(name_space.fingerprint).Take()};
  }
  MetaChange operator()(const DurableNode& node) const {
    return {absl::StrCat(kNodePrefix, node.name),
            ValueWriter().Put(node.incarnation.value).Put(node.given_up_to.value).Take()};
  }
  MetaChange operator()(const NodeForgotten& node) const {
    return {absl::StrCat(kNodePrefix, node.name), std::nullopt};
  }
  MetaChange operator()(const DurableRemoval& removal) const {
    return {RemovedKey(removal.name_space, removal.key),
            ValueWriter().Put(removal.generation.value).Take()};
  }
  MetaChange operator()(const DurableDrain& drain) const {
    return {absl::StrCat(kDrainPrefix, drain.name), ValueWriter().Take()};
  }
  MetaChange operator()(const DrainEnded& drain) const {
    return {absl::StrCat(kDrainPrefix, drain.name), std::nullopt};
  }
  MetaChange operator()(const RemovalForgotten& removal) const {
    return {RemovedKey(removal.name_space, removal.key), std::nullopt};
  }
};

// Each reads one kind; false: the record is broken.
bool ReadTerm(ValueReader value, DurableState& state) {
  const Term term{value.Get<uint32_t>()};
  if (!value.is_whole() || term.value == 0) return false;
  state.term = term;
  return true;
}

bool ReadRegistry(const ValueReader& value, DurableState& state) {
  if (!value.is_whole()) return false;
  state.is_registry_closed = true;
  return true;
}

bool ReadNamespace(absl::string_view name, ValueReader value, DurableState& state) {
  const absl::string_view fingerprint = value.GetRest();
  if (name.empty() || name.size() > kMaxNamespaceBytes || fingerprint.empty()) return false;
  state.namespaces.push_back({std::string(name), std::string(fingerprint)});
  return true;
}

bool ReadNode(absl::string_view name, ValueReader value, DurableState& state) {
  const Incarnation incarnation{value.Get<uint64_t>()};
  const Generation given_up_to{value.Get<uint64_t>()};
  const bool is_named = !name.empty() && name.size() <= kMaxNamespaceBytes;
  if (!is_named || !value.is_whole() || incarnation.value == 0) return false;
  state.nodes.push_back({std::string(name), incarnation, given_up_to});
  return true;
}

bool ReadRemoval(absl::string_view name, ValueReader value, DurableState& state) {
  const size_t end = name.find(kSeparator);
  const Generation generation{value.Get<uint64_t>()};
  if (end == absl::string_view::npos || !value.is_whole() || generation.value == 0) return false;
  const absl::string_view name_space = name.substr(0, end);
  const absl::string_view key = name.substr(end + 1);
  const bool is_named = !name_space.empty() && name_space.size() <= kMaxNamespaceBytes &&
                        !key.empty() && key.size() <= kMaxKeyBytes;
  if (!is_named) return false;
  state.removals.push_back({std::string(name_space), std::string(key), generation});
  return true;
}

bool ReadDrain(absl::string_view name, const ValueReader& value, DurableState& state) {
  if (name.empty() || name.size() > kMaxNamespaceBytes || !value.is_whole()) return false;
  state.drains.push_back({std::string(name)});
  return true;
}

enum class Verdict { kGood, kUnknown, kBroken };

Verdict ReadRecord(const MetaRecord& record, DurableState& state) {
  absl::string_view name = record.key;
  const bool is_term = name == kTermKey;
  const bool is_registry = name == kRegistryKey;
  // One prefix only: a namespace may be called "node/a".
  const bool is_namespace = absl::ConsumePrefix(&name, kNamespacePrefix);
  const bool is_node = !is_namespace && absl::ConsumePrefix(&name, kNodePrefix);
  const bool is_removal = !is_namespace && !is_node && absl::ConsumePrefix(&name, kRemovedPrefix);
  const bool is_drain =
      !is_namespace && !is_node && !is_removal && absl::ConsumePrefix(&name, kDrainPrefix);
  const bool is_known = is_drain || is_term || is_registry || is_namespace || is_node || is_removal;
  if (!is_known) return Verdict::kUnknown;
  if (record.value.empty()) return Verdict::kBroken;
  const auto version = static_cast<uint8_t>(record.value.front());
  if (version > kVersion) return Verdict::kUnknown;
  if (version < kVersion) return Verdict::kBroken;
  const ValueReader value(absl::string_view(record.value).substr(1));
  const bool is_good = is_term        ? ReadTerm(value, state)
                       : is_registry  ? ReadRegistry(value, state)
                       : is_namespace ? ReadNamespace(name, value, state)
                       : is_node      ? ReadNode(name, value, state)
                       : is_drain     ? ReadDrain(name, value, state)
                                      : ReadRemoval(name, value, state);
  return is_good ? Verdict::kGood : Verdict::kBroken;
}

}  // namespace

MetaChange EncodeChange(const DurableChange& change) { return std::visit(Encoder{}, change); }

DecodedState DecodeRecords(absl::Span<const MetaRecord> records) {
  DecodedState decoded;
  for (const MetaRecord& record : records) {
    switch (ReadRecord(record, decoded.state)) {
      case Verdict::kGood: break;
      case Verdict::kUnknown: ++decoded.unknown; break;
      case Verdict::kBroken:
        decoded.quarantined.push_back(record.key);
        if (!GuardIsOn(Guard::kRecordQuarantine)) return decoded;
        break;
    }
  }
  return decoded;
}

}  // namespace moonpool::master
