#include "storage_node/scrub/scrubber.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "common/check.h"
#include "transport/part_header.h"

namespace moonpool::storage_node {
namespace {

// Records fetched at a time. Between them and the look at their part it may be gone.
constexpr size_t kRecordsAhead = 64;
// A step ends here, too, however little is hashed of each part.
constexpr int kPartsPerStep = 256;
// Lines per round: memory that fails by the page would fill the disk.
constexpr uint64_t kLinesPerRound = 20;

}  // namespace

Scrubber::Scrubber(ExtentIndex& index, ScrubberOptions options, ScrubMetrics& metrics,
                   Logger& logger)
    : index_(index), options_(options), metrics_(metrics), logger_(logger) {
  MP_CHECK(options_.doubted_bytes_per_second > 0 && options_.step_bytes > 0,
           "a scrubber without a rate");
  if (options_.bytes_per_second == 0) round_.due = absl::InfiniteFuture();
}

absl::Time Scrubber::Step(absl::Time now) {
  bool may_have_doubts = true;
  if (now >= doubts_.due) {
    may_have_doubts = StepAlong(
        doubts_, [this] { return OpenDoubted(); }, options_.doubted_bytes_per_second, now);
  }
  if (now >= round_.due) {
    if (round_began_ == absl::InfinitePast()) round_began_ = now;
    if (!StepAlong(
            round_, [this] { return OpenNext(); }, options_.bytes_per_second, now)) {
      EndRound(now);
    }
  }
  return may_have_doubts ? std::min(round_.due, doubts_.due) : round_.due;
}

bool Scrubber::StepAlong(Walk& walk, absl::FunctionRef<std::optional<Part>()> open_next,
                         uint64_t bytes_per_second, absl::Time now) {
  uint64_t done = 0;
  bool has_more = true;
  for (int parts = 0; parts < kPartsPerStep && done < options_.step_bytes; ++parts) {
    if (!walk.part.has_value()) walk.part = open_next();
    has_more = walk.part.has_value();
    if (!has_more) break;
    done += HashSome(*walk.part, options_.step_bytes - done);
    if (walk.part->hashed < walk.part->record.extent.payload_bytes()) break;
    done += kPartHeaderBytes;
    Judge(*walk.part);
    walk.part.reset();
  }
  metrics_.bytes.Increment(done);
  walk.due =
      now + absl::Seconds(1) * (static_cast<double>(done) / static_cast<double>(bytes_per_second));
  return has_more;
}

// The bytes may get another owner while they are read. What comes of that is thrown away (Judge).
uint64_t Scrubber::HashSome(Part& part, uint64_t bytes_max) {
  const uint64_t bytes = std::min(part.record.extent.payload_bytes() - part.hashed, bytes_max);
  part.checksum.Update(part.at_rest.bytes.subspan(kPartHeaderBytes + part.hashed, bytes));
  part.hashed += bytes;
  return bytes;
}

std::optional<Scrubber::Part> Scrubber::OpenNext() {
  while (true) {
    if (ahead_.empty()) {
      if (std::exchange(is_last_slice_, false)) return std::nullopt;
      InventorySlice slice = index_.NextInventory(cursor_, kRecordsAhead);
      cursor_ = slice.next;
      is_last_slice_ = slice.is_last;
      ahead_ = std::move(slice.records);
      std::reverse(ahead_.begin(), ahead_.end());
      continue;
    }
    transport::SealRecord record = std::move(ahead_.back());
    ahead_.pop_back();
    if (std::optional<Part> part = Open(std::move(record)); part.has_value()) return part;
  }
}

std::optional<Scrubber::Part> Scrubber::OpenDoubted() {
  while (const std::optional<PartAt> doubted = index_.doubted_parts().Take()) {
    std::optional<transport::SealRecord> record =
        index_.FindRecord(doubted->generation, doubted->extent);
    if (!record.has_value()) continue;
    metrics_.doubted_parts.Increment();
    if (std::optional<Part> part = Open(*std::move(record)); part.has_value()) return part;
  }
  return std::nullopt;
}

// nullopt: freed or superseded since it was recorded.
std::optional<Scrubber::Part> Scrubber::Open(transport::SealRecord record) const {
  const std::optional<PartAtRest> at_rest = index_.OpenAtRest(record.generation, record.extent);
  if (!at_rest.has_value()) return std::nullopt;
  return Part{.record = std::move(record), .at_rest = *at_rest, .checksum = {}};
}

// The index looks once more, under its lock, whether the bytes were this part's all the while, and
// at the header.
void Scrubber::Judge(const Part& part) {
  const bool is_whole = part.checksum.Finish() == part.record.payload_checksum;
  if (!index_.DropIfDamaged(part.record, part.at_rest.order, is_whole)) return;
  metrics_.damaged_parts.Increment();
  if (++damaged_in_round_ > kLinesPerRound) return;
  logger_.Error("a part is damaged and forgotten",
                {{"namespace", absl::CHexEscape(part.record.name_space)},
                 {"key", absl::CHexEscape(part.record.key)},
                 {"generation", ToString(part.record.generation)},
                 {"extent", ToString(part.record.extent)},
                 {"damaged", is_whole ? "header" : "payload"}});
}

void Scrubber::EndRound(absl::Time now) {
  if (damaged_in_round_ > 0) {
    logger_.Error("parts were damaged: is this host's memory failing?",
                  {{"parts", std::exchange(damaged_in_round_, 0)}});
  }
  metrics_.rounds.Increment();
  metrics_.last_round_seconds.Set(absl::ToDoubleSeconds(now - round_began_));
  round_.due = std::max(round_.due, round_began_ + options_.round_min);
  round_began_ = absl::InfinitePast();
  cursor_ = {};
}

}  // namespace moonpool::storage_node
