// A trace of LLM serving, reduced to what a KVCache pool sees of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace moonpool::trace {

struct Request {
  absl::Duration arrival;  // since the start of the trace
  uint32_t input_tokens = 0;
  uint32_t output_tokens = 0;
  // The chain of the prompt's blocks. Equal id: equal block with an equal prefix. The last one may
  // be partly filled.
  std::vector<uint64_t> blocks;
};

struct Trace {
  std::string name;
  uint32_t block_tokens = 0;
  std::vector<Request> requests;  // by arrival
};

}  // namespace moonpool::trace
