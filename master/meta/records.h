// The bytes of the durable state: typed changes to records of a MetaStore, and back.
//
//   key                            value, little-endian
//   "term"                         u8 version = 1, u32 term
//   "registry"                     u8 version = 1: it is closed
//   "namespace/" NAME              u8 version = 1, the fingerprint
//   "node/" NAME                   u8 version = 1, u64 incarnation, u64 generation
//   "removed/" NAMESPACE 0x00 KEY  u8 version = 1, u64 generation
//
// A namespace has no 0x00 in its name; a key may have any bytes. Records of other kinds, and of
// versions above 1, are of a newer master: they are left as they are and mean nothing here. One
// that is broken is quarantined, counted, and left as it is: it is never a reason to lose the rest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "master/core/durable.h"
#include "master/meta/meta_store.h"

namespace moonpool::master {

MetaChange EncodeChange(const DurableChange& change);

struct DecodedState {
  DurableState state;
  uint64_t unknown = 0;                  // kinds and versions that this master does not know
  std::vector<std::string> quarantined;  // keys of broken records
};
DecodedState DecodeRecords(absl::Span<const MetaRecord> records);

}  // namespace moonpool::master
