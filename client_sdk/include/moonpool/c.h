// Moonpool for C, and for every language that can call C: store and fetch KV blocks in a running
// pool. Link moonpool::c, or `pkg-config --cflags --libs moonpool`. C99 or later, C++11 or later.
//
//   moonpool_client_options options = {.struct_size = sizeof(options)};
//   options.masters = "127.0.0.1:7400";
//   moonpool_client* client = NULL;
//   if (moonpool_connect(&options, &client) != MOONPOOL_OK) {
//     fprintf(stderr, "%s\n", moonpool_last_error());
//     return 1;
//   }
//   const moonpool_bytes key = moonpool_text("block-1");
//   int code = moonpool_put(client, key, moonpool_text("its bytes"), NULL);
//   if (code != MOONPOOL_OK && code != MOONPOOL_ALREADY_EXISTS) { ... moonpool_last_error() ... }
//   char block[64];
//   size_t size = 0;
//   if (moonpool_get(client, key, block, sizeof(block), NULL, &size) == MOONPOOL_OK) {
//     ... `size` bytes, verified ...
//   } else if (moonpool_error_reason(moonpool_last_error_detail()) == MOONPOOL_REASON_EVICTED) {
//     ... a miss says why: compute the block, and put it again ...
//   }
//   moonpool_close(client);
//
// A whole program, with its CMakeLists.txt, is in examples/c. What objects, namespaces, misses and
// views are is told in moonpool/client.h (C++), whose calls these are.
//
// Conventions
//
//  1. Opaque types (moonpool_client, moonpool_view, ...) are made and ended by functions named in
//     their comments. To end NULL is allowed and does nothing; to use anything after its end is
//     not.
//  2. A function that can fail returns an int: one of enum moonpool_code, 0 when all is well. What
//     it returns through pointers is then set; after a failure handles are NULL and numbers 0.
//  3. What failed, and what to do, is told by moonpool_last_error() on the thread that made the
//     call. A call that succeeds leaves it alone: it means something after a failure only.
//  4. A batch call returns MOONPOOL_OK when every item has its own result, which may be a failure:
//     look there. Anything else means that nothing was done (wrong usage); the results say so, too.
//  5. NULL, counts and sizes are checked: wrong usage is MOONPOOL_INVALID_ARGUMENT with
//     MOONPOOL_REASON_BAD_ARGUMENT, and a message that names the argument. NULL with a size or
//     count of 0 is an empty array. What cannot be checked is whether memory is there; it has to
//     be.
//  6. Memory that is passed in (keys, values, buffers, options, strings) stays the caller's, and is
//     not looked at after the function has returned. Strings end with a NUL.
//  7. Option structs begin with their own size: `moonpool_put_options o = {.struct_size =
//  sizeof(o)}`,
//     or, in C++, `= {}; o.struct_size = sizeof(o);`. In every field 0 is the default, so a field
//     that a program's header did not have yet has its default; a field that the library does not
//     know yet must be 0, or the call is MOONPOOL_INVALID_ARGUMENT. NULL instead of options: all
//     defaults. Structs that are filled (moonpool_stats, moonpool_prefix_match) begin likewise, and
//     are filled that far.
//  8. Structs that stand in arrays (moonpool_bytes, moonpool_buffer, the items, moonpool_result)
//     are the same in all libraries of one soname. Flags are 0 or 1.
//  9. Threads: all functions may be called on any thread. Those that take a moonpool_client or a
//     moonpool_cancel may be called on many at once. Views and errors are not locked: one thread at
//     a time, or many that only read. A function that ends a handle is called once, when no other
//     uses it; where more is allowed its comment says so.
// 10. Calls block, and do their I/O on the calling thread: N threads give N-fold parallelism. One
//     client per process is enough. Every call ends by its timeout, and soon when it is cancelled;
//     once it has returned, the library no longer touches its buffers.
// 11. No C++ exception comes out of a function. Memory that cannot be had is
//     MOONPOOL_RESOURCE_EXHAUSTED with MOONPOOL_REASON_LIMIT_REACHED; whether what was asked for
//     has been done is open then.
// 12. fork() comes before the first client: a child of a process that had one must not call the
//     library. (gRPC's threads are not in the child.)
//
// Errors common to all calls that ask the pool: UNAVAILABLE (master or nodes out of reach; the
// master until the timeout, see moonpool_client_options), DEADLINE_EXCEEDED, CANCELLED,
// INVALID_ARGUMENT (empty key, key over 1 KiB, wrong usage), RESOURCE_EXHAUSTED (a bound of this
// process or of the pool).
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define MOONPOOL_API __attribute__((visibility("default")))
#else
#define MOONPOOL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// --- Codes and reasons ---------------------------------------------------------------------------

// What to do about it. The numbers are those of absl::StatusCode and gRPC.
enum moonpool_code {
  MOONPOOL_OK = 0,
  MOONPOOL_CANCELLED = 1,
  MOONPOOL_UNKNOWN = 2,
  MOONPOOL_INVALID_ARGUMENT = 3,   // the caller's bug
  MOONPOOL_DEADLINE_EXCEEDED = 4,  // the call's time is over
  MOONPOOL_NOT_FOUND = 5,          // a fact: compute the block
  MOONPOOL_ALREADY_EXISTS = 6,     // a fact: what is stored is as good
  MOONPOOL_PERMISSION_DENIED = 7,
  MOONPOOL_RESOURCE_EXHAUSTED = 8,   // wait, or go without
  MOONPOOL_FAILED_PRECONDITION = 9,  // what the caller believes is not so: another layout, say
  MOONPOOL_ABORTED = 10,             // lost a race
  MOONPOOL_OUT_OF_RANGE = 11,
  MOONPOOL_UNIMPLEMENTED = 12,
  MOONPOOL_INTERNAL = 13,     // our bug
  MOONPOOL_UNAVAILABLE = 14,  // try again, with growing pauses
  MOONPOOL_DATA_LOSS = 15,    // damaged bytes were found, and not returned
  MOONPOOL_UNAUTHENTICATED = 16
};

// Why exactly. A later library may know more of them; a program takes one it does not know as 0.
enum moonpool_reason {
  MOONPOOL_REASON_UNSPECIFIED = 0,
  MOONPOOL_REASON_KEY_EMPTY = 1,
  MOONPOOL_REASON_KEY_TOO_LONG = 2,
  MOONPOOL_REASON_VALUE_TOO_LARGE = 3,
  MOONPOOL_REASON_DUPLICATE_KEY = 4,
  MOONPOOL_REASON_BATCH_TOO_LARGE = 5,
  MOONPOOL_REASON_BUFFER_TOO_SHORT = 6,
  MOONPOOL_REASON_NAMESPACE_UNKNOWN = 7,
  MOONPOOL_REASON_FINGERPRINT_MISMATCH = 8,
  MOONPOOL_REASON_BAD_ARGUMENT = 9,
  MOONPOOL_REASON_NEVER_STORED = 20,
  MOONPOOL_REASON_EVICTED = 21,
  MOONPOOL_REASON_EXPIRED = 22,
  MOONPOOL_REASON_REMOVED = 23,
  MOONPOOL_REASON_NODE_LOST = 24,
  MOONPOOL_REASON_BEING_WRITTEN = 25,
  MOONPOOL_REASON_ALREADY_EXISTS = 40,
  MOONPOOL_REASON_NO_SPACE = 41,
  MOONPOOL_REASON_NO_NODES = 42,
  MOONPOOL_REASON_GRANT_ABORTED = 43,
  MOONPOOL_REASON_REPLICAS_UNMET = 44,
  MOONPOOL_REASON_STALE_GENERATION = 60,
  MOONPOOL_REASON_STALE_TERM = 61,
  MOONPOOL_REASON_CHECKSUM_MISMATCH = 62,
  MOONPOOL_REASON_BYTES_PINNED = 63,
  MOONPOOL_REASON_BAD_FRAME = 64,
  MOONPOOL_REASON_PEER_VERSION = 65,
  MOONPOOL_REASON_PEER_UNREACHABLE = 66,
  MOONPOOL_REASON_LIMIT_REACHED = 80,
  MOONPOOL_REASON_DEADLINE = 81,
  MOONPOOL_REASON_CANCELLED_BY_CALLER = 82,
  MOONPOOL_REASON_SHUTTING_DOWN = 83,
  MOONPOOL_REASON_NOT_SAVED = 84,
  MOONPOOL_REASON_NOT_LEADER = 85
};

// "NOT_FOUND", "EVICTED"; "" for a number that means nothing. Static, for ever.
MOONPOOL_API const char* moonpool_code_name(int code);
MOONPOOL_API const char* moonpool_reason_name(int reason);
// "0.1.0": of the library that runs, which may be newer than this header. Static.
MOONPOOL_API const char* moonpool_version(void);

// --- Errors --------------------------------------------------------------------------------------

// One failure, to be read with the functions below. Belongs to where it was got from.
typedef struct moonpool_error moonpool_error;

// Of the last call on this thread that failed: one line for people, with code, reason and hint; ""
// before there is any. Never NULL. Valid until the next failure on this thread, or its end.
MOONPOOL_API const char* moonpool_last_error(void);
// The same, in its parts. Never NULL.
MOONPOOL_API const moonpool_error* moonpool_last_error_detail(void);

// All of them take NULL for "no error": MOONPOOL_OK, 0, "". Texts live as long as the error.
MOONPOOL_API int moonpool_error_code(const moonpool_error* error);
MOONPOOL_API int moonpool_error_reason(const moonpool_error* error);
MOONPOOL_API const char* moonpool_error_text(const moonpool_error* error);     // all, in one line
MOONPOOL_API const char* moonpool_error_message(const moonpool_error* error);  // what happened
MOONPOOL_API const char* moonpool_error_hint(const moonpool_error* error);     // what to do next
MOONPOOL_API const char* moonpool_error_node(const moonpool_error* error);     // its name
// The pool expects that it is worth trying again after this long; 0: it expects nothing.
MOONPOOL_API uint64_t moonpool_error_retry_after_ms(const moonpool_error* error);

// --- Bytes ---------------------------------------------------------------------------------------

// Bytes that are read: keys (1 to 1024 bytes of any value) and values.
typedef struct moonpool_bytes {
  const void* data;
  size_t size;
} moonpool_bytes;

// Bytes that are written.
typedef struct moonpool_buffer {
  void* data;
  size_t size;
} moonpool_buffer;

// The bytes of a string, its NUL aside. NULL: no bytes.
static inline moonpool_bytes moonpool_text(const char* text) {
  moonpool_bytes bytes;
  bytes.data = text;
  bytes.size = text == NULL ? 0 : strlen(text);
  return bytes;
}

// The key of the object; no bytes where there is none. It may have zero bytes within.
MOONPOOL_API moonpool_bytes moonpool_error_key(const moonpool_error* error);

// --- Results of batches --------------------------------------------------------------------------

#define MOONPOOL_BATCH_MAX 16384  // items of one call

// Of one item: what the single call would have returned.
typedef struct moonpool_result {
  int32_t code;    // enum moonpool_code
  int32_t reason;  // enum moonpool_reason
  uint64_t bytes;  // read, by a get; else 0
} moonpool_result;

// What the items of a batch that failed have to say. Batch calls make one where they are asked to
// (`errors` not NULL) and at least one item failed, else they give NULL. The caller ends it.
typedef struct moonpool_errors moonpool_errors;

// Of the item at `index`; NULL when that did not fail. Lives as long as `errors`.
MOONPOOL_API const moonpool_error* moonpool_errors_at(const moonpool_errors* errors, size_t index);
MOONPOOL_API void moonpool_errors_destroy(moonpool_errors* errors);

// --- Cancelling ----------------------------------------------------------------------------------

// Ends calls that run on other threads. The caller destroys it; calls that were given it may still
// run then, and are only no longer cancelled by it.
typedef struct moonpool_cancel moonpool_cancel;

MOONPOOL_API int moonpool_cancel_create(moonpool_cancel** cancel);
// Calls that were given it return MOONPOOL_CANCELLED soon, and those that begin later at once. Once
// and for ever. May be called while others use it.
MOONPOOL_API int moonpool_cancel_calls(moonpool_cancel* cancel);
MOONPOOL_API void moonpool_cancel_destroy(moonpool_cancel* cancel);

// --- Options -------------------------------------------------------------------------------------

enum moonpool_path {
  MOONPOOL_PATH_AUTO = 0,  // shared memory on the same host, TCP elsewhere
  MOONPOOL_PATH_TCP = 1,
  MOONPOOL_PATH_SHM = 2  // only objects on this host can be reached
};

// What someone should know and no call returns, one line: a path that failed, and the next one that
// takes over. Called on any thread, many at once; must not block, nor call the client. `line` is
// valid until it returns. Must not throw, nor leave by longjmp().
typedef void (*moonpool_warning_function)(void* context, const char* line);

typedef struct moonpool_client_options {
  size_t struct_size;
  // "host:port" or several, with commas between them. The one that leads serves; the others say
  // which it is, also when it is not named here. Required.
  const char* masters;
  // Keys of two namespaces have nothing to do with each other. NULL: "default".
  const char* name_space;
  // Layout of what is stored (model, revision, dtype, page tokens, parallel layout). Given: the
  // namespace is created if there is none, and MOONPOOL_FAILED_PRECONDITION if it has another.
  // NULL: the namespace must exist, and any fingerprint is accepted.
  const char* fingerprint;
  uint64_t timeout_ms;  // of connecting, and of calls that give none; 0: 10 seconds
  uint32_t path;        // enum moonpool_path
  uint32_t no_verify;   // do not compute the checksum of what is read: damage goes unnoticed
  // While no master can be reached: 0 is to try again until the timeout, 1 to fail after about a
  // second (four while masters elect their leader).
  uint32_t no_wait_for_master;
  uint32_t tcp_streams;                // per node and concurrent call, 1 to 64; 0: 2
  uint64_t location_cache_entries;     // 0: 65536
  const char* tcp_congestion_control;  // NULL: the system's
  // Which nodes share this host's memory: those that say the same. NULL: found out.
  const char* host_id;
  // Users, besides root and this process's own, whose nodes' pools may be mapped here.
  const uint32_t* trusted_uids;
  size_t trusted_uid_count;
  moonpool_warning_function on_warning;  // NULL: lines go to stderr
  void* warning_context;                 // passed to on_warning; used until the client is closed
} moonpool_client_options;

// Of every call.
typedef struct moonpool_call_options {
  size_t struct_size;
  uint64_t timeout_ms;            // 0: that of the client
  const moonpool_cancel* cancel;  // NULL: cannot be cancelled
} moonpool_call_options;

typedef struct moonpool_put_options {
  size_t struct_size;
  uint64_t timeout_ms;            // as in moonpool_call_options
  const moonpool_cancel* cancel;  // as in moonpool_call_options
  uint32_t replicas;              // on different nodes; 0: 1
  uint32_t min_replicas;          // succeed with this many; 0: all of them
  uint32_t no_wait_for_space;     // MOONPOOL_RESOURCE_EXHAUSTED at once, not at the timeout
  uint32_t wait_for_writer;       // another client is writing the key: wait for the outcome
} moonpool_put_options;

typedef struct moonpool_get_options {
  size_t struct_size;
  uint64_t timeout_ms;            // as in moonpool_call_options
  const moonpool_cancel* cancel;  // as in moonpool_call_options
  uint32_t no_verify;             // as in moonpool_client_options, for this call
  uint32_t reserved;              // 0
} moonpool_get_options;

typedef struct moonpool_match_options {
  size_t struct_size;
  uint64_t timeout_ms;            // as in moonpool_call_options
  const moonpool_cancel* cancel;  // as in moonpool_call_options
  // Keeps what was found in place for this long (bounded by the pool), for a caller who will fetch
  // it in a moment. 0: not at all.
  uint64_t hold_ms;
} moonpool_match_options;

// --- The client ----------------------------------------------------------------------------------

// A connection to a pool, in one namespace.
typedef struct moonpool_client moonpool_client;

// Reaches the master and opens the namespace. The caller closes the client.
MOONPOOL_API int moonpool_connect(const moonpool_client_options* options, moonpool_client** client);
// Waits for calls that run on other threads; none may begin. Not in on_warning. Views stay.
MOONPOOL_API void moonpool_close(moonpool_client* client);

// Since the client was made.
typedef struct moonpool_stats {
  size_t struct_size;
  uint64_t gets, hits, misses, get_bytes;
  uint64_t puts, put_bytes;
  uint64_t location_cache_hits;  // gets that cost no call to the master
  uint64_t master_calls;
  uint64_t relocated;          // a known location had gone stale: one more locate
  uint64_t failovers;          // another replica or path had to serve
  uint64_t checksum_failures;  // wrong bytes that were caught
} moonpool_stats;

// Does not block. The caller sets stats->struct_size.
MOONPOOL_API int moonpool_get_stats(const moonpool_client* client, moonpool_stats* stats);

// --- Putting -------------------------------------------------------------------------------------

// MOONPOOL_OK: readable by every client. MOONPOOL_ALREADY_EXISTS: it was there before. ABORTED with
// BEING_WRITTEN: another client is writing it. RESOURCE_EXHAUSTED with NO_SPACE or LIMIT_REACHED:
// nothing may be evicted. INVALID_ARGUMENT with VALUE_TOO_LARGE: larger than the pool. UNAVAILABLE
// with REPLICAS_UNMET: fewer nodes than min_replicas could be written. A message that says "may
// have been stored" leaves that open: putting it again tells.
MOONPOOL_API int moonpool_put(moonpool_client* client, moonpool_bytes key, moonpool_bytes value,
                              const moonpool_put_options* options);

// One object to store: the concatenation of its pieces.
typedef struct moonpool_put_item {
  moonpool_bytes key;
  const moonpool_bytes* pieces;
  size_t piece_count;
  moonpool_bytes parent;  // key of the block before this one in its prompt; no bytes: the first
} moonpool_put_item;

// `results` has room for `count`, and is filled in the order of the items. `errors` may be NULL. A
// key that stands twice: the second is DUPLICATE_KEY.
MOONPOOL_API int moonpool_put_many(moonpool_client* client, const moonpool_put_item* items,
                                   size_t count, const moonpool_put_options* options,
                                   moonpool_result* results, moonpool_errors** errors);

// --- Getting -------------------------------------------------------------------------------------

// Reads an object into `into`; more room than it has is fine. `bytes` (may be NULL): how many it
// has. NOT_FOUND with the reason of the miss: NEVER_STORED, EVICTED, EXPIRED, REMOVED,
// BEING_WRITTEN, NODE_LOST, CHECKSUM_MISMATCH, STALE_GENERATION. INVALID_ARGUMENT with
// BUFFER_TOO_SHORT: the message says how much is needed. After a failure the buffer's bytes mean
// nothing.
MOONPOOL_API int moonpool_get(moonpool_client* client, moonpool_bytes key, void* into,
                              size_t into_size, const moonpool_get_options* options, size_t* bytes);

// For small tools: allocates. The caller frees `value` with moonpool_free; it is not NULL when the
// object has no bytes. RESOURCE_EXHAUSTED with LIMIT_REACHED over 1 GiB.
MOONPOOL_API int moonpool_get_allocated(moonpool_client* client, moonpool_bytes key,
                                        const moonpool_get_options* options, void** value,
                                        size_t* bytes);
MOONPOOL_API void moonpool_free(void* value);

// One object to fetch: into the buffers, filled in order. No two items of a call share memory.
typedef struct moonpool_get_item {
  moonpool_bytes key;
  const moonpool_buffer* into;
  size_t into_count;
} moonpool_get_item;

// As moonpool_put_many. A key may stand more than once: every buffer is filled.
MOONPOOL_API int moonpool_get_many(moonpool_client* client, const moonpool_get_item* items,
                                   size_t count, const moonpool_get_options* options,
                                   moonpool_result* results, moonpool_errors** errors);

// Read-only bytes of an object in the pool itself: no copy. Keep it short: they cannot be evicted.
typedef struct moonpool_view moonpool_view;

// Same host only; an object elsewhere is FAILED_PRECONDITION with PEER_UNREACHABLE. The caller
// releases the view, on any thread; it may outlive the client.
MOONPOOL_API int moonpool_get_view(moonpool_client* client, moonpool_bytes key,
                                   const moonpool_get_options* options, moonpool_view** view);
// In object order, one piece for each part it is stored in; none when the object has no bytes, or
// `view` is NULL.
MOONPOOL_API size_t moonpool_view_piece_count(const moonpool_view* view);
// Belongs to the view. No bytes for an index from moonpool_view_piece_count on.
MOONPOOL_API moonpool_bytes moonpool_view_piece(const moonpool_view* view, size_t index);
MOONPOOL_API uint64_t moonpool_view_size(const moonpool_view* view);  // of all pieces together
// 1 while the node that owns the memory lives: what was read before this returned 1 is right. 0: it
// is gone; what was read since the last 1 may be wrong. 0 for NULL.
MOONPOOL_API int moonpool_view_valid(const moonpool_view* view);
MOONPOOL_API void moonpool_view_release(moonpool_view* view);

// --- Keys ----------------------------------------------------------------------------------------

// Each result: OK when the object is readable, NOT_FOUND with its reason, or why nobody can say.
MOONPOOL_API int moonpool_exists(moonpool_client* client, const moonpool_bytes* keys, size_t count,
                                 const moonpool_call_options* options, moonpool_result* results,
                                 moonpool_errors** errors);

// As moonpool_exists, asked of the master each time; `bytes` of a result is the size of the object.
MOONPOOL_API int moonpool_describe(moonpool_client* client, const moonpool_bytes* keys,
                                   size_t count, const moonpool_call_options* options,
                                   moonpool_result* results, moonpool_errors** errors);

// Each result: OK: gone for everybody, and it does not come back. NOT_FOUND: was not there.
MOONPOOL_API int moonpool_remove(moonpool_client* client, const moonpool_bytes* keys, size_t count,
                                 const moonpool_call_options* options, moonpool_result* results,
                                 moonpool_errors** errors);

typedef struct moonpool_prefix_match {
  size_t struct_size;
  uint64_t matched;     // leading keys that are readable now
  uint64_t held_ms;     // how long they are held, counted from when the call was made
  int32_t miss_code;    // why the next key missed; MOONPOOL_OK when all matched
  int32_t miss_reason;  // enum moonpool_reason
} moonpool_prefix_match;

// How much of a chain is there: keys of its blocks, the first one first. The caller sets
// match->struct_size. `sizes` (may be NULL) has room for `count`: the bytes of each object that
// matched, 0 from there on. `errors` (may be NULL): at index `matched`, why that key missed.
MOONPOOL_API int moonpool_match_prefix(moonpool_client* client, const moonpool_bytes* keys,
                                       size_t count, const moonpool_match_options* options,
                                       moonpool_prefix_match* match, uint64_t* sizes,
                                       moonpool_errors** errors);

typedef struct moonpool_list_options {
  size_t struct_size;
  uint64_t timeout_ms;            // as in moonpool_call_options
  const moonpool_cancel* cancel;  // as in moonpool_call_options
  uint64_t limit;                 // at most so many keys; 0: 1000
  moonpool_bytes after;           // moonpool_keys_next of the page before; no bytes: the first page
} moonpool_list_options;

// A page of keys, in no order.
typedef struct moonpool_keys moonpool_keys;

// Keys of the namespace that start with `prefix` (may be empty). For operators and clean-up: the
// master looks at all that it has. The caller destroys the page.
MOONPOOL_API int moonpool_list_keys(moonpool_client* client, moonpool_bytes prefix,
                                    const moonpool_list_options* options, moonpool_keys** keys);
MOONPOOL_API size_t moonpool_keys_count(const moonpool_keys* keys);  // 0 for NULL
// Belongs to the page. No bytes for an index from moonpool_keys_count on.
MOONPOOL_API moonpool_bytes moonpool_keys_at(const moonpool_keys* keys, size_t index);
// For moonpool_list_options.after, while the same master leads; belongs to the page. No bytes:
// there are no more.
MOONPOOL_API moonpool_bytes moonpool_keys_next(const moonpool_keys* keys);
MOONPOOL_API void moonpool_keys_destroy(moonpool_keys* keys);

#ifdef __cplusplus
}  // extern "C"
#endif
