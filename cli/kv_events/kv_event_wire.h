// The events of a pool in the words of vLLM's and SGLang's KV events: what they publish over ZeroMQ
// and what routers read. docs/KV_EVENTS.md has the bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "moonpool/events.h"

namespace moonpool::cli {

// How an event is written. kMap: {"type": "BlockStored", "block_hashes": ...}, as vLLM (0.32) and
// SGLang (0.5.23) do. kArray: ["BlockStored", ...], as vLLM did before.
enum class KvEventForm { kMap, kArray };

struct KvEventWireOptions {
  KvEventForm form = KvEventForm::kMap;
  std::string medium = "EXTERNAL";
  uint64_t block_size = 0;  // tokens; 0: not known
};

// The block's hash in a key: the bytes of its last segment, "a/b/00ff", where that is hexadecimal;
// else the key as it is.
std::string BlockHashOf(absl::string_view key);

// The group of vLLM's KV cache that the key's block is of: "g1/00ff": 1. Blocks of several groups
// have one hash. nullopt: the key names none.
std::optional<uint64_t> KvGroupOf(absl::string_view key);

// "page_tokens=16;model=m": 16, from 1 to 2^20. Where a layout fingerprint does not say, or where
// the field may have been cut (moonpool.fingerprint cuts before ";sha256="): nullopt.
std::optional<uint64_t> PageTokensOf(absl::string_view fingerprint);

// Events as they stand in a batch.
struct EncodedEvents {
  size_t count = 0;
  std::string bytes = {};
};

// Blocks of one chain and group that are stored one after the other become one event, as do
// removals in a row.
EncodedEvents EncodeKvEvents(absl::Span<const Event> events, const KvEventWireOptions& options);

// The same in order and in parts of at most `bytes_max`, or of one event.
std::vector<EncodedEvents> EncodeKvEventsInParts(absl::Span<const Event> events,
                                                 const KvEventWireOptions& options,
                                                 size_t bytes_max);

// Batches, one for each part or, where these are more than `batches_max` (> 0), for several in a
// row: [time in seconds since 1970, [event...], data-parallel rank 0].
std::vector<std::string> JoinKvEvents(absl::Span<const EncodedEvents> parts, uint64_t batches_max,
                                      double time);

}  // namespace moonpool::cli
