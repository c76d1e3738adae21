// What one put has to do with spare grants: it uses one where that serves as well as a grant that
// names its key, and asks for more with its commit. Only a put of one item does.
#pragma once

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client_sdk/core/session.h"
#include "client_sdk/core/spare_stock.h"
#include "common/call_context.h"
#include "moonpool/client.h"
#include "moonpool/v1/master.pb.h"

namespace moonpool::client {

// A put that has less time than this names its key first: should it end in the middle, the master
// knows of it.
inline constexpr absl::Duration kSpareTimeMin = absl::Milliseconds(20);
// Of the time for writing so much is kept, at most, to say that it came to nothing.
inline constexpr absl::Duration kSpareAbortTime = absl::Milliseconds(100);

// Used by one thread, for one call. Borrows everything.
class SparePath {
 public:
  SparePath(Session& session, const PutOptions& options, const CallContext& context)
      : session_(session), options_(options), context_(context) {}

  // A spare for the only item, if there is one and it will do: nobody waits for another writer,
  // all replicas have to be written, and the key is not known to be there.
  std::optional<SpareGrant> Take(absl::Span<const PutItem> items);
  // For writing under a spare. Its end is to be told the master, so that it is known what the nodes
  // may have when the caller's time is over.
  CallContext WritingContext() const;
  // Asks for some, if it is time.
  void Wish(v1::CommitPutsRequest& request);
  // What came of that. `sent_at`: before the request was.
  void Add(CommitPutsAnswer& answer, absl::Time sent_at);
  // The key was there, or no node took it: no more of the kind for now.
  void Failed();
  // Names those that are of no use any more.
  void GiveBack(v1::AbortPutsRequest& request);

 private:
  Session& session_;
  const PutOptions& options_;
  const CallContext& context_;
  std::optional<SpareKind> kind_;
  std::vector<SpareGrant> useless_;
};

// All that the session has, at best effort: the deadline of each does the same, later.
void GiveBackSpares(Session& session);

}  // namespace moonpool::client
