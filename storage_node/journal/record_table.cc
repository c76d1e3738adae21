#include "storage_node/journal/record_table.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/checksum.h"
#include "common/error.h"
#include "common/guard.h"
#include "common/status_macros.h"

namespace moonpool::storage_node {
namespace {

using transport::SealRecord;

static_assert(std::endian::native == std::endian::little, "the layout is that of memory");

constexpr size_t kCellsMax = UINT32_MAX;
// Of the parts that fit, these few are left to those that come before the ones go that make room.
constexpr uint64_t kShareOnTheirWay = 64;
constexpr uint64_t kMostOnTheirWay = 1024;
constexpr size_t kBodyAt = sizeof(uint64_t);

uint64_t WordOf(CellKind kind, uint64_t rest) { return static_cast<uint64_t>(kind) | rest << 8; }
CellKind KindOf(uint64_t word) { return static_cast<CellKind>(word & 0xff); }
uint64_t TextWord(uint32_t next) { return WordOf(CellKind::kText, uint64_t{next} << 24); }
uint32_t NextOf(uint64_t text_word) { return static_cast<uint32_t>(text_word >> 32); }

uint64_t HeadWord(CellKind kind, const HeadBody& head, absl::string_view text) {
  std::byte bytes[sizeof(HeadBody) + kTextBytesMax];
  std::memcpy(bytes, &head, sizeof(head));
  const size_t text_bytes = kind == CellKind::kSealed ? text.size() : 0;
  if (text_bytes > 0) std::memcpy(bytes + sizeof(head), text.data(), text_bytes);
  return WordOf(kind, Checksum(absl::MakeConstSpan(bytes, sizeof(head) + text_bytes)));
}

size_t TextCells(size_t bytes) { return (bytes + kTextBytesPerCell - 1) / kTextBytesPerCell; }

uint64_t TermWord(Term term) { return uint64_t{~term.value} << 32 | term.value; }

std::atomic_ref<uint64_t> WordAt(std::byte* at) {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at));
}

uint64_t HeaderChecksum(const TableHeader& header) {
  return Checksum(
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&header), kHeaderChecksumAt));
}

absl::Status Unfit(absl::string_view why) {
  return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kBadArgument, why);
}

}  // namespace

size_t TableBytesMax(uint64_t parts_max) {
  // One more: a part and the bytes it was written in have an entry each for a moment.
  const uint64_t parts = std::min<uint64_t>(parts_max + 1, kCellsMax / kRecordCellsMax);
  return (kHeaderCells + parts * kRecordCellsMax) * kCellBytes;
}

size_t TableBytesMin() { return kHeaderCells * kCellBytes; }

absl::StatusOr<RecordTable> RecordTable::Create(TableMemory memory, const TableIdentity& identity,
                                                Incarnation incarnation) {
  RecordTable table(std::move(memory));
  if (table.memory_.ready_bytes < TableBytesMin()) {
    ASSIGN_OR_RETURN(table.memory_.ready_bytes, table.memory_.make_ready(TableBytesMin()));
  }
  std::byte* const base = table.memory_.bytes.data();
  WordAt(base).store(0, std::memory_order_release);  // no table while it is half made
  std::memset(base + kBodyAt, 0, table.memory_.ready_bytes - kBodyAt);
  TableHeader header{.magic = kTableMagic,
                     .layout_version = kTableLayoutVersion,
                     .cell_bytes = kCellBytes,
                     .incarnation = incarnation.value,
                     .boot = identity.boot,
                     .file = identity.file,
                     .segments = identity.segments,
                     .checksum = 0};
  header.checksum = HeaderChecksum(header);
  std::memcpy(base + kBodyAt, reinterpret_cast<const std::byte*>(&header) + kBodyAt,
              sizeof(header) - kBodyAt);
  table.NoteTerm(Term{});
  WordAt(base).store(kTableMagic, std::memory_order_release);
  table.incarnation_ = incarnation;
  return table;
}

absl::StatusOr<RecordTable> RecordTable::Open(TableMemory memory, const TableIdentity& identity) {
  RecordTable table(std::move(memory));
  table.memory_.ready_bytes = std::min(table.memory_.ready_bytes, table.memory_.bytes.size());
  if (table.memory_.ready_bytes < TableBytesMin()) return Unfit("it is too short");
  TableHeader header;
  std::memcpy(&header, table.memory_.bytes.data(), sizeof(header));
  if (header.magic != kTableMagic) return Unfit("it is no index, or was never completed");
  if (header.layout_version != kTableLayoutVersion || header.cell_bytes != kCellBytes) {
    return Unfit(absl::StrCat("its layout is ", header.layout_version, ", of this release ",
                              kTableLayoutVersion));
  }
  if (header.checksum != HeaderChecksum(header)) return Unfit("its header is damaged");
  if (header.boot != identity.boot) return Unfit("it is of another boot of the machine");
  if (header.file != identity.file) return Unfit("it belongs to another file of a pool");
  if (header.segments != identity.segments) {
    return Unfit("it is of a pool of another size, or with another folder of pins");
  }
  table.incarnation_ = Incarnation{header.incarnation};
  const uint64_t term_word = WordAt(table.At(0) + kTermWordAt).load(std::memory_order_acquire);
  table.newest_term_ = Term{static_cast<uint32_t>(term_word)};
  if (term_word != TermWord(table.newest_term_)) return Unfit("its newest term is damaged");
  if (table.incarnation_ == Incarnation{}) return Unfit("it has no incarnation");
  table.Scan();
  return table;
}

void RecordTable::Scan() {
  std::vector<bool> is_used(ready_cells(), false);
  // Two records that share a cell cannot both be whole; the one that is met first keeps it.
  const auto take_all = [&](absl::Span<const Cell> cells) {
    for (size_t i = 0; i < cells.size(); ++i) {
      if (is_used[cells[i]]) {
        for (const Cell mine : cells.first(i)) is_used[mine] = false;
        return false;
      }
      is_used[cells[i]] = true;
    }
    return true;
  };
  std::string text;
  std::vector<Cell> cells;
  for (Cell cell = kHeaderCells; cell < ready_cells(); ++cell) {
    const CellKind kind = KindOf(LoadWord(cell));
    if (kind == CellKind::kNone || kind == CellKind::kText) continue;
    HeadBody head;
    cells.assign(1, cell);
    if (!IsWhole(cell, head, text, &cells) || !take_all(cells)) {
      ++damaged_;
      StoreWord(cell, 0);
      if (!GuardIsOn(Guard::kRecordQuarantine)) found_.clear();
      continue;
    }
    found_.push_back(JournalEntry{cell});
    end_ = std::max(end_, *std::max_element(cells.begin(), cells.end()) + 1);
  }
  entries_ = found_.size();
  for (Cell cell = end_; cell > kHeaderCells; --cell) {
    if (!is_used[cell - 1]) unused_.push_back(cell - 1);
  }
}

bool RecordTable::ReadText(const HeadBody& head, std::string& text,
                           std::vector<Cell>* cells) const {
  text.resize(head.text_bytes());
  Cell cell = head.first_text;
  for (size_t done = 0; done < text.size(); done += kTextBytesPerCell) {
    if (cell < kHeaderCells || cell >= ready_cells()) return false;
    const uint64_t word = LoadWord(cell);
    if (KindOf(word) != CellKind::kText) return false;
    std::memcpy(text.data() + done, At(cell) + kBodyAt,
                std::min(kTextBytesPerCell, text.size() - done));
    if (cells != nullptr) cells->push_back(cell);
    cell = NextOf(word);
  }
  return true;
}

bool RecordTable::IsWhole(Cell cell, HeadBody& head, std::string& text,
                          std::vector<Cell>* cells) const {
  const uint64_t word = LoadWord(cell);
  const CellKind kind = KindOf(word);
  head = LoadHead(cell);
  text.clear();
  const bool is_readable = kind == CellKind::kTaken ||
                           (kind == CellKind::kSealed && head.text_bytes() <= kTextBytesMax &&
                            ReadText(head, text, cells));
  if (!is_readable || !GuardIsOn(Guard::kJournalChecksum)) return is_readable;
  return word == HeadWord(kind, head, text);
}

std::optional<TableRecord> RecordTable::Read(JournalEntry entry) const {
  const Cell cell = entry.value;
  HeadBody head;
  std::string text;
  if (cell < kHeaderCells || cell >= ready_cells() || !IsWhole(cell, head, text, nullptr)) {
    return std::nullopt;
  }
  TableRecord found{.is_sealed = KindOf(LoadWord(cell)) == CellKind::kSealed, .record = {}};
  SealRecord& record = found.record;
  record.generation = Generation{head.generation};
  record.extent = {SegmentId{head.segment}, head.offset, head.length};
  if (!found.is_sealed) return found;
  record.name_space = text.substr(0, head.namespace_bytes);
  record.key = text.substr(head.namespace_bytes, head.key_bytes);
  record.parent = text.substr(size_t{head.namespace_bytes} + head.key_bytes);
  record.object_bytes = head.object_bytes;
  record.part_index = head.part_index;
  record.part_count = head.part_count;
  record.replica_index = head.replica & 0x0f;
  record.replicas = head.replica >> 4;
  record.payload_checksum = head.payload_checksum;
  return found;
}

absl::StatusOr<JournalEntry> RecordTable::Append(const SealRecord& record) {
  const HeadBody head{.generation = record.generation.value,
                      .offset = record.extent.offset,
                      .length = record.extent.length,
                      .object_bytes = record.object_bytes,
                      .payload_checksum = record.payload_checksum,
                      .first_text = 0,
                      .key_bytes = static_cast<uint16_t>(record.key.size()),
                      .parent_bytes = static_cast<uint16_t>(record.parent.size()),
                      .part_index = record.part_index,
                      .part_count = record.part_count,
                      .namespace_bytes = static_cast<uint8_t>(record.name_space.size()),
                      .replica = static_cast<uint8_t>(record.replica_index | record.replicas << 4),
                      .segment = static_cast<uint16_t>(record.extent.segment.value)};
  const std::string text = absl::StrCat(record.name_space, record.key, record.parent);
  MP_CHECK(text.size() == head.text_bytes(), "names that no peer may send", text.size());
  return Write(CellKind::kSealed, head, text);
}

absl::StatusOr<JournalEntry> RecordTable::AppendTaken(Generation generation, const Extent& extent) {
  HeadBody head{};
  head.generation = generation.value;
  head.offset = extent.offset;
  head.length = extent.length;
  head.segment = static_cast<uint16_t>(extent.segment.value);
  return Write(CellKind::kTaken, head, "");
}

absl::StatusOr<JournalEntry> RecordTable::Write(CellKind kind, HeadBody head,
                                                absl::string_view text) {
  ASSIGN_OR_RETURN(const std::vector<Cell> cells, Take(1 + TextCells(text.size())));
  for (size_t i = 1; i < cells.size(); ++i) {
    const absl::string_view piece = text.substr((i - 1) * kTextBytesPerCell, kTextBytesPerCell);
    std::memcpy(At(cells[i]) + kBodyAt, piece.data(), piece.size());
    StoreWord(cells[i], TextWord(i + 1 < cells.size() ? cells[i + 1] : 0));
  }
  if (cells.size() > 1) head.first_text = cells[1];
  std::memcpy(At(cells[0]) + kBodyAt, &head, sizeof(head));
  StoreWord(cells[0], HeadWord(kind, head, text));
  ++entries_;
  return JournalEntry{cells[0]};
}

absl::StatusOr<std::vector<RecordTable::Cell>> RecordTable::Take(size_t count) {
  const size_t reused = std::min(count, unused_.size());
  const size_t end = end_ + (count - reused);
  if (end > ready_cells()) RETURN_IF_ERROR(stuck_ = MakeReady(end));
  std::vector<Cell> cells(unused_.rbegin(), unused_.rbegin() + static_cast<ptrdiff_t>(reused));
  unused_.resize(unused_.size() - reused);
  while (cells.size() < count) cells.push_back(end_++);
  return cells;
}

absl::Status RecordTable::MakeReady(size_t end) {
  if (end * kCellBytes > memory_.bytes.size()) {
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                     absl::StrCat("the index has no room for more than ", end_, " cells"),
                     {.hint = "raise --data-parts-max"});
  }
  ASSIGN_OR_RETURN(const size_t ready, memory_.make_ready(end * kCellBytes));
  memory_.ready_bytes = std::min(ready, memory_.bytes.size());
  MP_CHECK(end <= ready_cells(), "made less ready than was asked for", ready);
  return absl::OkStatus();
}

JournalRoom RecordTable::Room() {
  if (!stuck_.ok()) stuck_ = MakeReady(size_t{ready_cells()} + kRecordCellsMax);
  if (stuck_.ok()) return {};
  const uint64_t cells = ready_cells() - kHeaderCells;
  const uint64_t fit = entries_ == 0 ? cells / kRecordCellsMax : cells * entries_ / used_cells();
  return {.parts_max = fit - std::min(fit / kShareOnTheirWay, kMostOnTheirWay), .why = stuck_};
}

void RecordTable::Demote(JournalEntry entry) {
  if (entry == kNoEntry) return;
  const HeadBody head = LoadHead(entry.value);
  if (KindOf(LoadWord(entry.value)) != CellKind::kSealed) return;
  StoreWord(entry.value, HeadWord(CellKind::kTaken, head, ""));
  FreeText(head);
}

void RecordTable::Erase(JournalEntry entry) {
  if (entry == kNoEntry) return;
  const CellKind kind = KindOf(LoadWord(entry.value));
  StoreWord(entry.value, 0);
  if (kind == CellKind::kSealed) FreeText(LoadHead(entry.value));
  unused_.push_back(entry.value);
  --entries_;
}

// After its head has let go of it.
void RecordTable::FreeText(const HeadBody& head) {
  std::string text;
  if (head.text_bytes() <= kTextBytesMax) ReadText(head, text, &unused_);
}

void RecordTable::NoteTerm(Term term) {
  if (term < newest_term_) return;
  newest_term_ = term;
  WordAt(At(0) + kTermWordAt).store(TermWord(term), std::memory_order_release);
}

uint64_t RecordTable::LoadWord(Cell cell) const {
  return WordAt(At(cell)).load(std::memory_order_acquire);
}

// Release: whatever was stored before stays before it. Acquire-like for what follows, too: the
// cells of a record that was erased are not written before the erasure.
void RecordTable::StoreWord(Cell cell, uint64_t word) {
  WordAt(At(cell)).store(word, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

HeadBody RecordTable::LoadHead(Cell cell) const {
  HeadBody head;
  std::memcpy(&head, At(cell) + kBodyAt, sizeof(head));
  return head;
}

}  // namespace moonpool::storage_node
