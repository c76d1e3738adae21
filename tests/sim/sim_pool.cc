#include "tests/sim/sim_pool.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "storage_node/journal/record_format.h"

namespace moonpool::sim {
namespace {

using storage_node::CellKind;
using storage_node::HeadBody;
using storage_node::kHeaderCells;
using Granule = SimPool::Granule;

constexpr size_t kBodyAt = sizeof(uint64_t);
constexpr uint64_t kBitsTurnedMax = 8;

HeadBody BodyOf(const Granule& cell) {
  HeadBody body;
  std::memcpy(&body, cell.bytes + kBodyAt, sizeof(body));
  return body;
}

// The cell with the head of the sealed part that was granted last; nullopt: there is none.
std::optional<size_t> NewestRecord(const std::vector<Granule>& table) {
  std::optional<size_t> newest;
  for (size_t cell = kHeaderCells; cell < table.size(); ++cell) {
    if (table[cell].bytes[0] != static_cast<std::byte>(CellKind::kSealed)) continue;
    const bool is_newer =
        !newest.has_value() || BodyOf(table[cell]).generation > BodyOf(table[*newest]).generation;
    if (is_newer) newest = cell;
  }
  return newest;
}

// The rest was never written.
void CutOff(Granule& granule, size_t from, Random& random) {
  const size_t at = from + random.Below(sizeof(granule.bytes) - from);
  std::fill(granule.bytes + at, std::end(granule.bytes), std::byte{0});
}

void TurnBits(std::vector<Granule>& table, Random& random) {
  size_t used = table.size();
  const Granule unused;
  while (used > kHeaderCells && std::memcmp(&table[used - 1], &unused, sizeof(unused)) == 0) --used;
  for (uint64_t bits = 1 + random.Below(kBitsTurnedMax); bits > 0; --bits) {
    Granule& cell = table[random.Below(used)];
    // Often where it says what the cell is: so what was erased comes back.
    const size_t bit = random.OneIn(2) ? random.Below(2) : random.Below(8 * sizeof(cell.bytes));
    cell.bytes[bit / 8] ^= std::byte{1} << bit % 8;
  }
}

}  // namespace

SimPool SimPool::New(uint64_t bytes) {
  const size_t granules = bytes / sizeof(Granule);
  // A part has a granule of header at least, and a record with a short key is two cells.
  return {.memory = std::vector<Granule>(granules),
          .table = std::vector<Granule>(2 * granules + 64)};
}

void SimPool::Tear(Random& random) {
  if (const std::optional<size_t> newest = NewestRecord(table); newest.has_value()) {
    const HeadBody body = BodyOf(table[*newest]);
    const size_t header = body.offset / sizeof(Granule);
    switch (random.Below(4)) {
      case 0: CutOff(table[*newest], kBodyAt, random); break;
      case 1: CutOff(table[body.first_text % table.size()], kBodyAt, random); break;
      case 2: CutOff(memory[header % memory.size()], 0, random); break;
      default: break;
    }
  }
  if (random.OneIn(2)) TurnBits(table, random);
}

}  // namespace moonpool::sim
