// The guards: each a few lines of the product without which somebody would read wrong bytes, lose
// what was promised, or get back what was removed. They have names so that tests of the tests can
// do without one:
//
//   if (GuardIsOn(Guard::kChecksum) && checksum != header.payload_checksum) return Damaged(...);
//
// In every build but one the question is a constant: no code, and nothing to switch. The preset
// `mutation` builds the simulator and some unit tests with a switch (guard_switch.h), and shows
// that they fail without each guard. TESTING.md lists where each stands and what catches its
// absence.
#pragma once

#include <cstdint>

namespace moonpool {

enum class Guard : uint8_t {
  // Readers.
  kServedOwner,   // a node serves bytes for the generation that owns them only
  kReadIdentity,  // a reader compares the part header with what it was told of the object
  kChecksum,      // a reader hashes the payload

  // Nodes: who may write.
  kViewPins,      // bytes that somebody views get no other owner
  kRevokedStep,   // each step of a write asks whether its claim still holds
  kSealedAsSent,  // what is sealed is what its writer sent
  kNewestOwns,    // an older generation does not claim the bytes of a newer one
  kTerm,          // what is of an older term than the newest is refused: grants, masters, commands
  kFloor,         // after a restart: nothing is written that was granted before it
  kFreedStaysFreed,   // what a node was told to forget is not sealed late
  kJournalChecksum,   // a record of the journal is whole, or none
  kRecordInPool,      // and the part header in the pool is its own
  kRecordQuarantine,  // a bad one, there or in the meta store, costs none of the others

  // Masters: what is there, and what may go.
  kLease,           // nothing leased is evicted, moved or freed
  kTakeover,        // nor what an older master may have leased
  kInventoryFirst,  // no grant on a node before its inventory is complete
  kHighestWins,     // of two generations of a key the higher one
  kTombstone,       // a removed key that some node may still hold does not return
  kDurableRemoval,  // nor under the next master
  kDebt,            // nothing is adopted from a node that is to forget it
  kGivenUp,         // nor what was given up with the node's incarnation
  kUnproved,  // nor what this master ought to know if it lived: late seals of attempts that ended
  kObituary,  // nor what is known to be dead
  kAnswerInReign,  // an answer is given by who still leads
  kSpareIsNewest,  // a spare grant takes a key only when all that is known of it is older
};
inline constexpr int kGuards = static_cast<int>(Guard::kSpareIsNewest) + 1;

#ifdef MOONPOOL_MUTATION
bool GuardIsOn(Guard guard);
#else
constexpr bool GuardIsOn(Guard) { return true; }
#endif

}  // namespace moonpool
