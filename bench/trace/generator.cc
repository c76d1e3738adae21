#include "bench/trace/generator.h"

#include <algorithm>
#include <utility>

#include "absl/types/span.h"
#include "common/check.h"
#include "common/random.h"

namespace moonpool::trace {
namespace {

// A distribution by its quantiles, straight lines between them.
struct Quantile {
  uint64_t per_mille;
  uint64_t value;
};
using Distribution = absl::Span<const Quantile>;

constexpr Quantile kExponentialPerMille[] = {
    {0, 0},      {100, 105},  {200, 223},  {300, 357},  {400, 511},  {500, 693},   {600, 916},
    {700, 1204}, {800, 1609}, {900, 2303}, {950, 2996}, {990, 4605}, {1000, 7000},
};

constexpr Quantile kChatFirstTokens[] = {{0, 890},      {100, 905},   {200, 1090},  {300, 1750},
                                         {400, 3900},   {500, 5300},  {600, 7400},  {700, 10500},
                                         {800, 15500},  {900, 25000}, {950, 36000}, {990, 80000},
                                         {1000, 126000}};
constexpr Quantile kChatGrowthTokens[] = {{0, 20},     {200, 116},  {300, 266},   {400, 368},
                                          {500, 454},  {600, 547},  {700, 700},   {800, 1200},
                                          {900, 3000}, {950, 5000}, {990, 12000}, {1000, 40000}};
constexpr Quantile kChatOutputTokens[] = {{0, 1},     {100, 24},   {200, 100},  {300, 213},
                                          {400, 291}, {600, 399},  {800, 504},  {900, 597},
                                          {950, 698}, {990, 1120}, {1000, 2000}};
constexpr Quantile kChatThinkMillis[] = {
    {0, 5000},     {100, 42000},  {200, 62000},  {300, 85000},   {400, 115000},  {500, 160000},
    {600, 230000}, {700, 350000}, {800, 640000}, {900, 1100000}, {950, 1700000}, {1000, 3500000}};
// That another turn follows, by how many there were: who came back comes back.
constexpr uint64_t kChatContinuesPerMille[] = {210, 460, 590, 670, 710, 730};

constexpr Quantile kAgentFirstTokens[] = {{0, 9000}, {500, 18000}, {900, 26000}, {1000, 60000}};
constexpr Quantile kAgentGrowthTokens[] = {{0, 150},    {200, 350},  {400, 700},   {600, 1300},
                                           {800, 3000}, {900, 5200}, {990, 15000}, {1000, 50000}};
constexpr Quantile kAgentOutputTokens[] = {{0, 30},     {200, 150},  {500, 320},   {800, 800},
                                           {900, 1350}, {990, 3400}, {1000, 10000}};
constexpr Quantile kAgentThinkMillis[] = {
    {0, 1000},     {100, 8000},   {200, 12000},   {300, 18000},   {400, 30000},   {500, 70000},
    {600, 240000}, {690, 600000}, {800, 1100000}, {900, 1800000}, {1000, 5400000}};
constexpr uint64_t kAgentContinuesPerMille[] = {980};

struct Shape {
  Distribution first_tokens;
  Distribution growth_tokens;
  Distribution output_tokens;
  Distribution think_millis;
  absl::Span<const uint64_t> continues_per_mille;
  uint64_t shared_tokens;       // the start of every prompt
  uint64_t context_tokens_max;  // then the conversation is summarised and starts anew
  uint64_t turns_mean_milli;    // what the above gives, to space the sessions
  uint32_t block_tokens;
};

constexpr uint64_t kTurnsMax = 200;

Shape ShapeOf(Workload workload) {
  if (workload == Workload::kChat) {
    return {kChatFirstTokens,
            kChatGrowthTokens,
            kChatOutputTokens,
            kChatThinkMillis,
            kChatContinuesPerMille,
            512,
            128000,
            1630,
            512};
  }
  return {kAgentFirstTokens,
          kAgentGrowthTokens,
          kAgentOutputTokens,
          kAgentThinkMillis,
          kAgentContinuesPerMille,
          0,
          180000,
          49000,
          64};
}

uint64_t Sample(Random& random, Distribution distribution) {
  constexpr uint64_t kFine = 1000;
  const uint64_t rank = random.Below(1000 * kFine);
  size_t upper = 1;
  while (distribution[upper].per_mille * kFine <= rank) ++upper;
  const auto [from, low] = distribution[upper - 1];
  const auto [to, high] = distribution[upper];
  return low + (high - low) * (rank - from * kFine) / ((to - from) * kFine);
}

class Generator {
 public:
  Generator(Workload workload, const GenerateOptions& options)
      : options_(options), shape_(ShapeOf(workload)), random_(options.seed) {
    trace_.name = workload == Workload::kChat ? "generated chat" : "generated agent";
    trace_.block_tokens = options.block_tokens != 0 ? options.block_tokens : shape_.block_tokens;
    for (uint64_t i = 0; i < shape_.shared_tokens / trace_.block_tokens; ++i) {
      shared_blocks_.push_back(next_block_++);
    }
  }

  Trace Run() {
    uint64_t start_millis = 0;
    // Mean time between sessions: one second / rate * turns per session.
    const uint64_t spacing_millis =
        shape_.turns_mean_milli * 1000 / options_.requests_per_1000_seconds;
    while (trace_.requests.size() < options_.requests) {
      AddSession(start_millis);
      start_millis += spacing_millis * Sample(random_, kExponentialPerMille) / 1000;
    }
    const auto earlier = [](const Request& a, const Request& b) { return a.arrival < b.arrival; };
    std::stable_sort(trace_.requests.begin(), trace_.requests.end(), earlier);
    return std::move(trace_);
  }

 private:
  void AddSession(uint64_t now_millis) {
    std::vector<uint64_t> context = shared_blocks_;  // the full blocks so far
    uint64_t input_tokens = Sample(random_, shape_.first_tokens);
    for (uint64_t turn = 0; turn < kTurnsMax; ++turn) {
      const uint64_t output_tokens = Sample(random_, shape_.output_tokens);
      AddRequest(now_millis, input_tokens, output_tokens, context);
      if (trace_.requests.size() == options_.requests) return;
      const size_t habit = std::min<size_t>(turn, shape_.continues_per_mille.size() - 1);
      if (random_.Below(1000) >= shape_.continues_per_mille[habit]) return;
      now_millis += Sample(random_, shape_.think_millis);
      input_tokens += output_tokens + Sample(random_, shape_.growth_tokens);
      if (input_tokens > shape_.context_tokens_max) {
        context = shared_blocks_;
        input_tokens = Sample(random_, shape_.first_tokens);
      }
    }
  }

  void AddRequest(uint64_t now_millis, uint64_t input_tokens, uint64_t output_tokens,
                  std::vector<uint64_t>& context) {
    const uint64_t full_blocks = input_tokens / trace_.block_tokens;
    while (context.size() < full_blocks) context.push_back(next_block_++);
    Request request = {.arrival = absl::Milliseconds(now_millis),
                       .input_tokens = static_cast<uint32_t>(input_tokens),
                       .output_tokens = static_cast<uint32_t>(output_tokens),
                       .blocks = context};
    // A partly filled block is another one as soon as the prompt goes on.
    if (input_tokens % trace_.block_tokens != 0) request.blocks.push_back(next_block_++);
    trace_.requests.push_back(std::move(request));
  }

  const GenerateOptions options_;
  const Shape shape_;
  Random random_;
  Trace trace_;
  std::vector<uint64_t> shared_blocks_;
  uint64_t next_block_ = 0;
};

}  // namespace

Trace Generate(Workload workload, const GenerateOptions& options) {
  MP_CHECK(options.requests_per_1000_seconds > 0, "a trace needs a rate");
  return Generator(workload, options).Run();
}

}  // namespace moonpool::trace
