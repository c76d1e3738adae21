#include "bench/replay/engine.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "bench/measure/stopwatch.h"
#include "bench/replay/content.h"
#include "common/status_macros.h"
#include "common/types.h"

namespace moonpool::replay {
namespace {

constexpr uint64_t kMostBatchBlocks = 256;

}  // namespace

void Tally::Merge(const Tally& other) {
  requests += other.requests;
  blocks += other.blocks;
  hit_blocks += other.hit_blocks;
  lost_after_match += other.lost_after_match;
  stored_blocks += other.stored_blocks;
  stored_by_others += other.stored_by_others;
  refused += other.refused;
  errors += other.errors;
  wrong_bytes += other.wrong_bytes;
  get_bytes += other.get_bytes;
  put_bytes += other.put_bytes;
  match.Merge(other.match);
  get.Merge(other.get);
  put.Merge(other.put);
  if (first_error.ok()) first_error = other.first_error;
}

void Tally::CountError(const absl::Status& status) {
  ++errors;
  if (first_error.ok()) first_error = status;
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Connect(EngineOptions options) {
  ASSIGN_OR_RETURN(auto client, Client::Connect(options.client));
  return std::unique_ptr<Engine>(new Engine(std::move(options), std::move(client)));
}

Engine::Engine(EngineOptions options, std::unique_ptr<Client> client)
    : options_(std::move(options)),
      client_(std::move(client)),
      batch_blocks_(
          std::clamp<uint64_t>(options_.buffer_bytes / options_.block_bytes, 1, kMostBatchBlocks)),
      buffers_(new std::byte[batch_blocks_ * options_.block_bytes]) {}

std::string Engine::KeyOf(uint64_t block) const { return absl::StrCat(options_.key_prefix, block); }

absl::Span<std::byte> Engine::Buffer(size_t index) {
  return absl::MakeSpan(buffers_.get() + index * options_.block_bytes, options_.block_bytes);
}

void Engine::Play(const trace::Request& request, Tally& tally) {
  keys_.clear();
  for (uint64_t block : request.blocks) keys_.push_back(KeyOf(block));
  const size_t hits = Fetch(Match(tally), tally);
  ++tally.requests;
  tally.blocks += keys_.size();
  tally.hit_blocks += hits;
  const auto missing = static_cast<int64_t>(keys_.size() - hits);
  const absl::Duration prefill = options_.prefill_per_block * missing;
  if (prefill > absl::ZeroDuration()) {
    std::this_thread::sleep_for(absl::ToChronoNanoseconds(prefill));
  }
  Store(request, hits, tally);
}

size_t Engine::Match(Tally& tally) {
  size_t matched = 0;
  while (matched < keys_.size()) {
    const auto keys = absl::MakeConstSpan(keys_).subspan(matched, kMaxBatchKeys);
    const bench::Stopwatch watch;
    const absl::StatusOr<PrefixMatch> match = client_->MatchPrefix(keys);
    tally.match.Add(watch.elapsed());
    if (!match.ok()) {
      tally.CountError(match.status());
      break;
    }
    matched += match->matched;
    if (match->matched < keys.size()) break;
  }
  return matched;
}

size_t Engine::Fetch(size_t matched, Tally& tally) {
  std::vector<GetItem> gets;
  size_t hits = 0;
  while (hits < matched) {
    const size_t count = std::min(batch_blocks_, matched - hits);
    gets.resize(count);
    for (size_t i = 0; i < count; ++i) gets[i] = {.key = keys_[hits + i], .into = {Buffer(i)}};
    const bench::Stopwatch watch;
    const std::vector<absl::StatusOr<size_t>> results = client_->GetMany(gets);
    tally.get.Add(watch.elapsed());
    bool has_gap = false;
    for (size_t i = 0; i < count; ++i) {
      if (!results[i].ok()) {
        has_gap = true;
        if (absl::IsNotFound(results[i].status())) {
          ++tally.lost_after_match;
        } else {
          tally.CountError(results[i].status());
        }
        continue;
      }
      const size_t got = *results[i];
      tally.get_bytes += got;
      tally.wrong_bytes +=
          CountWrongBytes(gets[i].key, Buffer(i).first(got)) + (options_.block_bytes - got);
      if (!has_gap) ++hits;
    }
    if (has_gap) break;
  }
  return hits;
}

void Engine::Store(const trace::Request& request, size_t first, Tally& tally) {
  // A chain may name a block twice; it is stored once.
  absl::flat_hash_set<uint64_t> seen(request.blocks.begin(),
                                     request.blocks.begin() + static_cast<ptrdiff_t>(first));
  puts_.clear();
  for (size_t i = first; i < keys_.size(); ++i) {
    if (!seen.insert(request.blocks[i]).second) continue;
    const absl::Span<std::byte> buffer = Buffer(puts_.size());
    FillContent(keys_[i], buffer);
    puts_.push_back(
        {.key = keys_[i], .value = {buffer}, .parent = i == 0 ? std::string() : keys_[i - 1]});
    if (puts_.size() == batch_blocks_ && !StoreBatch(tally)) return;
  }
  if (!puts_.empty()) StoreBatch(tally);
}

bool Engine::StoreBatch(Tally& tally) {
  const bench::Stopwatch watch;
  const std::vector<absl::Status> results = client_->PutMany(puts_);
  tally.put.Add(watch.elapsed());
  bool is_worth_going_on = true;
  for (const absl::Status& result : results) {
    if (result.ok()) {
      ++tally.stored_blocks;
      tally.put_bytes += options_.block_bytes;
    } else if (absl::IsAlreadyExists(result) || absl::IsAborted(result)) {
      ++tally.stored_by_others;
    } else {
      is_worth_going_on = false;
      if (absl::IsResourceExhausted(result)) {
        ++tally.refused;
      } else {
        tally.CountError(result);
      }
    }
  }
  puts_.clear();
  return is_worth_going_on;
}

}  // namespace moonpool::replay
