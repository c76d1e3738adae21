// Parts of an object that stand in for each other: of replicas whose cuts are equal, wherever they
// were written or copied. Which of them make up one replica is for the master to say, and no node
// knows it. Pure; the parts are those of one object.
#pragma once

#include "absl/functional/function_ref.h"
#include "master/core/object_table.h"

namespace moonpool::master {

// The bad ones (above 0; more is worse) come together in as few replicas as may be. False: that
// helps none, and nothing is changed. O(replicas x parts).
bool GatherBad(StoredParts& parts, absl::FunctionRef<int(const StoredPart&)> badness);

// Parts are exchanged until no node has some of two replicas, where that can be: with the node both
// would go. Exact for two replicas; among more, two at a time. False: nothing is changed.
// O(replicas^2 x parts).
bool KeepApart(StoredParts& parts);

}  // namespace moonpool::master
