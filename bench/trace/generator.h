// Makes traces of the published shape, for tests and for machines without the real ones.
//
//   Trace trace = Generate(Workload::kChat, {.seed = 7, .requests = 5000});
//
// The same seed gives the same trace on every platform: only integer arithmetic is used.
#pragma once

#include <cstdint>

#include "bench/trace/request.h"

namespace moonpool::trace {

enum class Workload {
  // Conversations behind one short system prompt that all share: long first prompts, most of which
  // never come back; think times of minutes; about a third of the blocks can hit.
  kChat,
  // Coding agents: every turn extends the last one, input to output about 130 : 1, tool calls
  // within seconds and now and then a human who takes half an hour; 96 % of the blocks can hit.
  kAgent,
};

struct GenerateOptions {
  uint64_t seed = 1;
  uint32_t requests = 12000;
  uint32_t requests_per_1000_seconds = 3400;  // on average
  uint32_t block_tokens = 0;  // 0: that of the public trace, 512 for chat, 64 for agents
};

Trace Generate(Workload workload, const GenerateOptions& options = {});

}  // namespace moonpool::trace
