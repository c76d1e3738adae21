// Moonpool client: store and fetch KV blocks in a running pool.
//
//   auto connected = moonpool::Client::Connect({.masters = {"127.0.0.1:7400"}});
//   if (!connected.ok()) return connected.status();
//   moonpool::Client& client = **connected;
//   absl::Status put = client.Put({.key = "block-1", .value = {bytes}, .parent = "block-0"});
//   absl::StatusOr<size_t> got = client.Get("block-1", buffer);      // bytes read, verified
//   if (!got.ok() && moonpool::ReasonOf(got.status()) == moonpool::ErrorReason::kEvicted) ...
//
// A whole program, with its CMakeLists.txt, is in examples/cpp.
//
// Objects are immutable: the first committed put of a key wins, and a later one is told
// ALREADY_EXISTS. A get returns exactly the bytes of one committed put, or an error whose typed
// detail (DetailOf in common/error.h) says why there are none. Never anything else.
//
// Threads: a Client is thread-safe; use one per process. The blocking calls do their I/O on the
// calling thread, so N threads give N-fold parallelism. The *Async forms run the same calls on
// the client's own threads (`sdk-N`).
// Time: every call ends by its timeout. Cancelling a call makes it return CANCELLED soon; when a
// call has returned, or its callback has begun, the client no longer touches the buffers.
// Memory: keys, buffers and spans are borrowed until the call returns (async: until `done` runs).
// Errors common to all calls: UNAVAILABLE (master or nodes out of reach; the master until the
// timeout, see ClientOptions::wait_for_master),
// DEADLINE_EXCEEDED, CANCELLED, INVALID_ARGUMENT (empty key, key over 1 KiB, batch over 16384),
// RESOURCE_EXHAUSTED (a bound of this process or of the pool; the detail names it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/cancel.h"
#include "common/error.h"

namespace moonpool {

using MutableBuffer = absl::Span<std::byte>;
using ConstBuffer = absl::Span<const std::byte>;

enum class Path {
  kAuto,  // shared memory on the same host, TCP elsewhere
  kTcp,
  kShm,  // only objects on this host can be reached
};

struct ClientOptions {
  // host:port; at least one. The one that leads serves; the others say which it is, also when it is
  // not named here. With several, one that has a call and gives no sign of life for a second, or
  // its share of the call's time, is passed over.
  std::vector<std::string> masters = {};
  // Keys of two namespaces have nothing to do with each other. "default" is always there, without a
  // fingerprint; any other one is made by the first client that names it with a fingerprint.
  std::string name_space = "default";
  // Layout of what is stored (model, revision, dtype, page tokens, parallel layout). Given: the
  // namespace is created if there is none, and refused (FAILED_PRECONDITION, both fingerprints
  // shown) if it has another. Empty: the namespace must exist, and any fingerprint is accepted.
  // Printable UTF-8; with the namespace's name at most 254 bytes.
  std::string fingerprint = {};
  Path path = Path::kAuto;
  // Compute the checksum of every byte read. Without, a get still returns no other object's bytes,
  // but does not notice bytes that were damaged in memory or on the way.
  bool verify = true;
  absl::Duration timeout = absl::Seconds(10);  // of calls that give none
  // While no master can be reached, Connect and all calls that need one try again, with growing
  // pauses, until their timeout: an outage that is shorter (a restart) costs time and no call. All
  // of that is idempotent, and so is a put that goes on under another leader. False: they are
  // UNAVAILABLE after about a second, or four while masters elect their leader, for those who would
  // rather compute the bytes than wait; a put whose bytes are written waits for its outcome all the
  // same.
  bool wait_for_master = true;
  size_t location_cache_entries = 1 << 16;
  // Of the *Async forms: threads, and calls that may wait for one (more: RESOURCE_EXHAUSTED).
  size_t async_threads = 2;
  size_t async_queue = 256;
  int tcp_streams = 2;                      // per node and concurrent call
  std::string tcp_congestion_control = {};  // empty = the system's default
  // Which nodes share this host's memory: those that say the same. Empty = what moonpool-node finds
  // out by itself (common/host_id.h).
  std::string host_id = {};
  // Users (their ids), besides root and this process's own, whose nodes may have their pool in a
  // named file for it to be mapped here: whoever may write such a file can also cut it short, which
  // kills all who have it mapped. Such nodes of other users are reached over TCP.
  std::vector<uint32_t> trusted_uids = {};
  // What someone should know and no call returns, one line each: a path that failed, and the next
  // one taking over. Called from any thread; must not block or call the client. Empty = stderr.
  std::function<void(absl::string_view line)> on_warning = {};
};

struct CallOptions {
  absl::Duration timeout = absl::ZeroDuration();  // zero = ClientOptions::timeout
  CancelToken cancel = {};
};

struct PutOptions {
  CallOptions call = {};
  uint32_t replicas = 1;         // on different nodes, on different hosts where there are some
  uint32_t min_replicas = 0;     // succeed with this many; 0 = replicas
  bool wait_for_space = true;    // wait up to the timeout instead of RESOURCE_EXHAUSTED at once
  bool wait_for_writer = false;  // another client is writing the key: wait for the outcome
};

// One object to store. The value is the concatenation of `value`.
struct PutItem {
  std::string key = {};
  std::vector<ConstBuffer> value = {};
  std::string parent = {};  // key of the block before this one in its prompt; empty = first
};

struct GetOptions {
  CallOptions call = {};
  bool verify = true;  // false overrides ClientOptions::verify
};

// One object to fetch into `into`, filled in order. More room than the object has is fine. No two
// items of a call share memory: they are filled side by side.
struct GetItem {
  std::string key = {};
  std::vector<MutableBuffer> into = {};
};

// Memory for the object of the key at `index`, which has `size_bytes`; an error ends its get.
// Called on the calling thread, once for each object, and again if it is replaced by a larger one
// meanwhile.
using Allocate =
    absl::FunctionRef<absl::StatusOr<MutableBuffer>(size_t index, uint64_t size_bytes)>;

struct MatchOptions {
  CallOptions call = {};
  // Keeps what was found in place for this long (bounded by the pool), for a caller who will
  // fetch it in a moment. Zero: no lease.
  absl::Duration hold = absl::ZeroDuration();
};

struct PrefixMatch {
  size_t matched = 0;                          // leading keys that are readable now
  std::vector<uint64_t> sizes = {};            // bytes of each matched object
  absl::Duration held = absl::ZeroDuration();  // counted from when the call was made
  absl::Status miss = {};                      // why the next key missed; OK when all matched
};

// What the pool has of an object.
struct Description {
  uint64_t size_bytes = 0;
  // Of each replica that can be read now the names of the nodes that hold its parts, in object
  // order, each once.
  std::vector<std::vector<std::string>> replicas = {};
};

struct ListOptions {
  CallOptions call = {};
  size_t limit = 1000;     // at most so many keys
  std::string after = {};  // KeyPage::next of the page before; empty = the first page
};

struct KeyPage {
  std::vector<std::string> keys = {};  // in no order
  std::string next = {};               // for ListOptions::after; empty = there are no more
};

// Read-only bytes of an object in the pool itself (same host): no copy, and nobody else's bytes
// appear in it while it lives. Keep it short: its bytes cannot be evicted. Move-only; release on
// any thread; may outlive the client.
class View {
 public:
  View(View&&) noexcept;
  View& operator=(View&&) noexcept;
  ~View();
  // In object order: one piece per part. An object has several when it is larger than a stripe, or
  // when the pool had no hole of its size left. Empty for a zero-byte object.
  absl::Span<const ConstBuffer> pieces() const;
  uint64_t size_bytes() const;
  // False once the node that owns the memory is gone (crashed or restarted): what was read before
  // this returned true is right, what is read after may not be.
  bool valid() const;

  struct Rep;
  explicit View(std::unique_ptr<Rep> rep);

 private:
  std::unique_ptr<Rep> rep_;
};

// Since the client was made.
struct ClientStats {
  uint64_t gets = 0, hits = 0, misses = 0, get_bytes = 0;
  uint64_t puts = 0, put_bytes = 0;
  uint64_t location_cache_hits = 0;  // gets that cost no call to the master
  uint64_t master_calls = 0;
  uint64_t relocated = 0;          // a known location had gone stale: one more locate
  uint64_t failovers = 0;          // another replica or path had to serve
  uint64_t checksum_failures = 0;  // wrong bytes that were caught
};

class Client {
 public:
  // Reaches the master and opens the namespace within options.timeout; `cancel` ends it as it does
  // a call.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(ClientOptions options,
                                                         const CancelToken& cancel = {});
  // Waits for running calls; pending async calls end with CANCELLED. So it must not happen in, or
  // with, a callback of this client (the last shared_ptr to it in a `done`, say): that would wait
  // for itself, and ends the process with a message. Hand it to another thread.
  ~Client();

  // OK: readable by every client. ALREADY_EXISTS: it was there before (readable). ABORTED with
  // BEING_WRITTEN: another client is writing it. RESOURCE_EXHAUSTED with NO_SPACE or LIMIT_REACHED:
  // nothing may be evicted; the message says what holds the space. INVALID_ARGUMENT with
  // VALUE_TOO_LARGE: larger than the pool. UNAVAILABLE with REPLICAS_UNMET: fewer nodes than
  // min_replicas could be written. DATA_LOSS with CHECKSUM_MISMATCH: what arrived at the node was
  // not what was sent, time and again. An error that says "may have been stored" leaves that open:
  // the bytes were written, and the outcome did not arrive in time; putting them again tells.
  absl::Status Put(absl::string_view key, ConstBuffer value, const PutOptions& options = {});
  absl::Status Put(absl::string_view key, absl::string_view value, const PutOptions& options = {});
  absl::Status Put(const PutItem& item, const PutOptions& options = {});
  // One status per item, in order. A key that stands twice: the second is DUPLICATE_KEY.
  std::vector<absl::Status> PutMany(absl::Span<const PutItem> items,
                                    const PutOptions& options = {});

  // Bytes read. NOT_FOUND with the reason of the miss: NEVER_STORED, EVICTED, EXPIRED, REMOVED,
  // BEING_WRITTEN; NODE_LOST: its holders are out of reach (it may come back with them);
  // CHECKSUM_MISMATCH: what was left of it was found corrupted; STALE_GENERATION: it moved faster
  // than it could be followed.
  // INVALID_ARGUMENT with BUFFER_TOO_SHORT: the message says how much is needed; nothing is read.
  absl::StatusOr<size_t> Get(absl::string_view key, MutableBuffer into,
                             const GetOptions& options = {});
  // For small tools: allocates. RESOURCE_EXHAUSTED with LIMIT_REACHED over 1 GiB.
  absl::StatusOr<std::string> Get(absl::string_view key, const GetOptions& options = {});
  // One result per item, in order. A key may stand more than once; every buffer is filled.
  std::vector<absl::StatusOr<size_t>> GetMany(absl::Span<const GetItem> items,
                                              const GetOptions& options = {});

  // The same, into memory that is asked for once the sizes are known. RESOURCE_EXHAUSTED with
  // LIMIT_REACHED for an object over 1 GiB.
  std::vector<absl::StatusOr<size_t>> GetMany(absl::Span<const std::string> keys, Allocate allocate,
                                              const GetOptions& options = {});

  // Same host only; an object elsewhere is FAILED_PRECONDITION with PEER_UNREACHABLE. Verified when
  // its location is first used, pinned afterwards without any call.
  absl::StatusOr<View> GetView(absl::string_view key, const GetOptions& options = {});
  // One per key, in order.
  std::vector<absl::StatusOr<View>> GetViewMany(absl::Span<const std::string> keys,
                                                const GetOptions& options = {});

  // One per key: OK, NOT_FOUND with its reason, or the error of the call.
  std::vector<absl::Status> Exists(absl::Span<const std::string> keys,
                                   const CallOptions& options = {});
  // Keys of one chain, first block first.
  absl::StatusOr<PrefixMatch> MatchPrefix(absl::Span<const std::string> keys,
                                          const MatchOptions& options = {});
  // One per key, asked of the master each time: NOT_FOUND with its reason. To the pool it is a read
  // like a get's, which may follow it without a call.
  std::vector<absl::StatusOr<Description>> Describe(absl::Span<const std::string> keys,
                                                    const CallOptions& options = {});
  // Keys of the namespace that start with `prefix`. Every key that is there from the first page to
  // the last is in one of them, and in no other; what is stored or removed meanwhile may be. `next`
  // is good for as long as the same master leads. An error in the middle of a page shortens it, and
  // is met again from its `next`. For operators and clean-up: the master looks at all that it has.
  absl::StatusOr<KeyPage> ListKeys(absl::string_view prefix, const ListOptions& options = {});
  // OK: gone for everybody, and it does not come back. NOT_FOUND: was not there; after a crash of
  // the master a key that had been evicted or lost may be found again.
  std::vector<absl::Status> Remove(absl::Span<const std::string> keys,
                                   const CallOptions& options = {});

  // Asynchronous forms. `done` runs exactly once, on a thread of the client, and must neither block
  // nor destroy the client.
  // A refusal because the queue is full also arrives through `done`, on the calling thread.
  void PutManyAsync(std::vector<PutItem> items, PutOptions options,
                    std::function<void(std::vector<absl::Status>)> done);
  void GetManyAsync(std::vector<GetItem> items, GetOptions options,
                    std::function<void(std::vector<absl::StatusOr<size_t>>)> done);
  void GetViewAsync(std::string key, GetOptions options,
                    std::function<void(absl::StatusOr<View>)> done);
  void ExistsAsync(std::vector<std::string> keys, CallOptions options,
                   std::function<void(std::vector<absl::Status>)> done);
  void MatchPrefixAsync(std::vector<std::string> keys, MatchOptions options,
                        std::function<void(absl::StatusOr<PrefixMatch>)> done);
  void RemoveAsync(std::vector<std::string> keys, CallOptions options,
                   std::function<void(std::vector<absl::Status>)> done);

  ClientStats stats() const;

 private:
  struct Rep;
  explicit Client(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace moonpool
