// Docstrings of moonpool.Client, behind the signatures that inspect.signature shows; _native.pyi
// has the types.
#pragma once

namespace moonpool::python::docs {

inline constexpr const char* kClient =
    "A connection to a running pool; thread-safe, one per process and namespace.\n\n"
    "Every call does its work on the calling thread with the GIL released, ends by its timeout, "
    "and "
    "borrows keys and buffers until it returns. Forms for one key raise a MoonpoolError; the "
    "*_many "
    "forms return a list in the order of the keys, in which an item that failed is a MoonpoolError "
    "that was not raised. They raise only for wrong usage.\n\n"
    "Arguments of all calls: `timeout`, seconds, default that of the client; `cancel`, a "
    "CancelSource, which ends the call with Cancelled.\n\n"
    "Signals: a call is not interrupted. Python's handlers, that of Ctrl-C too, run when it has "
    "ended, by its timeout at the latest. AsyncClient's calls end with their task.\n\n"
    "os.fork(): make clients in the child alone. One made before is the parent's: the child's "
    "calls "
    "on it raise FailedPrecondition, closing it does nothing there, and making another "
    "raises it, too, since gRPC's threads do not survive a fork. multiprocessing's \"spawn\" has "
    "no such limit.";

inline constexpr const char* kPut =
    "put($self, key, value, *, parent=\"\", replicas=1, min_replicas=0, wait_for_space=True, "
    "wait_for_writer=False, timeout=None, cancel=None)\n--\n\n"
    "Stores bytes under a key. True: stored, and readable by every client. False: the key was "
    "there "
    "before; objects never change.\n\n"
    "`value`: a buffer, a contiguous CPU torch tensor, or a list of these, which is their "
    "concatenation; not copied. `parent`: key of the block before this one in its prompt. "
    "`replicas`: copies on different nodes; succeeds with `min_replicas` of them (0: all). "
    "`wait_for_space`: wait until something may be evicted. `wait_for_writer`: when another client "
    "is writing the key, wait for the outcome.\n\n"
    "Raises Aborted (BEING_WRITTEN), ResourceExhausted (NO_SPACE, LIMIT_REACHED), InvalidArgument, "
    "Unavailable, DeadlineExceeded.";

inline constexpr const char* kPutMany =
    "put_many($self, keys, values, *, parents=None, replicas=1, min_replicas=0, "
    "wait_for_space=True, wait_for_writer=False, timeout=None, cancel=None)\n--\n\n"
    "put() of many: `values[i]` under `keys[i]`, `parents[i]` before it. One call to the master "
    "for "
    "all, all nodes at once. Each entry is True, False or the error.";

inline constexpr const char* kGet =
    "get($self, key, *, verify=None, timeout=None, cancel=None)\n--\n\n"
    "The bytes of the object. Raises Miss with the reason (NEVER_STORED, EVICTED, EXPIRED, "
    "REMOVED, "
    "BEING_WRITTEN, NODE_LOST, CHECKSUM_MISMATCH, STALE_GENERATION).\n\n"
    "`verify`: False skips the checksum of the bytes; a get still returns no other object's.";

inline constexpr const char* kGetMany =
    "get_many($self, keys, *, verify=None, timeout=None, cancel=None)\n--\n\n"
    "get() of many: each entry is bytes or the error.";

inline constexpr const char* kGetInto =
    "get_into($self, key, target, *, verify=None, timeout=None, cancel=None)\n--\n\n"
    "Reads the object into `target`, a writable buffer, a contiguous CPU torch tensor, or a list "
    "of "
    "these that is filled in order. Returns the bytes read; more room than the object has is fine, "
    "and less raises InvalidArgument (BUFFER_TOO_SHORT) with nothing read. After any other error "
    "the target holds anything.";

inline constexpr const char* kGetIntoMany =
    "get_into_many($self, keys, targets, *, verify=None, timeout=None, cancel=None)\n--\n\n"
    "get_into() of many: each entry is the bytes read or the error.";

inline constexpr const char* kGetView =
    "get_view($self, key, *, verify=None, timeout=None, cancel=None)\n--\n\n"
    "A View of the object's bytes in the pool itself: no copy. Same host only; an object elsewhere "
    "raises FailedPrecondition (PEER_UNREACHABLE).";

inline constexpr const char* kGetViewMany =
    "get_view_many($self, keys, *, verify=None, timeout=None, cancel=None)\n--\n\n"
    "get_view() of many: each entry is a View or the error.";

inline constexpr const char* kExists =
    "exists($self, key, *, timeout=None, cancel=None)\n--\n\n"
    "Whether the key is readable now. Takes no lease: it may be gone a moment later.";

inline constexpr const char* kExistsMany =
    "exists_many($self, keys, *, timeout=None, cancel=None)\n--\n\n"
    "exists() of many in one call: each entry is True, False or the error.";

inline constexpr const char* kMatchPrefix =
    "match_prefix($self, keys, *, hold=0.0, timeout=None, cancel=None)\n--\n\n"
    "How many leading keys of one chain, first block first, are readable: a PrefixMatch. `hold`: "
    "seconds for which what was found stays in place (bounded by the pool).";

inline constexpr const char* kDescribe =
    "describe($self, key, *, timeout=None, cancel=None)\n--\n\n"
    "What the pool has of a key: a Description. Raises Miss. Asks the master each time, and counts "
    "as a read where the pool decides what to evict.";

inline constexpr const char* kDescribeMany =
    "describe_many($self, keys, *, timeout=None, cancel=None)\n--\n\n"
    "describe() of many in one call: each entry is a Description or the error.";

inline constexpr const char* kListKeys =
    "list_keys($self, prefix=\"\", *, limit=1000, after=\"\", timeout=None, cancel=None)\n--\n\n"
    "Keys of the namespace that start with `prefix`: a KeyPage of at most `limit`, fewer after an "
    "error in the middle, which is met again from its `next`. `after`: the `next` of the page "
    "before, which is good for as long as the same master leads. Every key that "
    "is there all the time is in one page; what is stored or removed meanwhile may be. For "
    "operators and clean-up: the master looks at all that it has.";

inline constexpr const char* kDescription = "Outcome of Client.describe.";

inline constexpr const char* kKeyPage = "Outcome of Client.list_keys.";

inline constexpr const char* kRemove =
    "remove($self, key, *, timeout=None, cancel=None)\n--\n\n"
    "Removes the key for everybody. False: it was not there. Raises ResourceExhausted when the "
    "pool "
    "has too many removals to remember.";

inline constexpr const char* kRemoveMany =
    "remove_many($self, keys, *, timeout=None, cancel=None)\n--\n\n"
    "remove() of many: each entry is True, False or the error.";

inline constexpr const char* kStats =
    "stats($self)\n--\n\n"
    "Counters since the client was made, by name.";

inline constexpr const char* kClose =
    "close($self)\n--\n\n"
    "Lets go of connections. Calls under way on other threads end as they would have; later ones "
    "raise FailedPrecondition. Again: nothing.";

inline constexpr const char* kPrefixMatch = "Outcome of Client.match_prefix.";

inline constexpr const char* kCancelSource =
    "Ends calls that are under way: pass it as `cancel`, and call cancel() on another thread. The "
    "calls raise Cancelled soon, and have let go of their buffers when they do.";

}  // namespace moonpool::python::docs
