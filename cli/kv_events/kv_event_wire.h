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

// "model=m;page_tokens=16": 16. Where a layout fingerprint does not say: nullopt.
std::optional<uint64_t> PageTokensOf(absl::string_view fingerprint);

// One batch: [time in seconds since 1970, [event...], data-parallel rank 0]. Blocks of one chain
// that are stored one after the other become one event, as do removals in a row.
std::string EncodeKvEvents(absl::Span<const Event> events, double time,
                           const KvEventWireOptions& options);

}  // namespace moonpool::cli
