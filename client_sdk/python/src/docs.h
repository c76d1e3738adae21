// Docstrings of moonpool.Client, behind the signatures that inspect.signature shows; _native.pyi
// has the types.
#pragma once

namespace moonpool::python::docs {

inline constexpr const char* kClient =
    "A connection to a running pool; thread-safe, one per process and namespace.\n\n"
    "Every call does its work on the calling thread with the GIL released, ends by its timeout, "
    "and borrows keys and buffers until it returns. Forms for one key raise a MoonpoolError; the "
    "*_many forms return a list in the order of the keys, in which an item that failed is a "
    "MoonpoolError "
    "that was not raised. They raise only for wrong usage.\n\n"
    "Arguments of all calls: `timeout`, seconds, default that of the client; `cancel`, a "
    "CancelSource, which ends the call with Cancelled.\n\n"
    "Signals: a call is not interrupted. Python's handlers, that of Ctrl-C too, run when it has "
    "ended, by its timeout at the latest. AsyncClient's calls end with their task.\n\n"
    "os.fork(): make clients in the child alone. One made before is the parent's: the child's "
    "calls on it raise FailedPrecondition, closing it does nothing there, and making another "
    "raises it, too, since gRPC's threads do not survive a fork. multiprocessing's \"spawn\" has "
    "no such limit.";

inline constexpr const char* kPut =
    "put($self, key, value, *, parent=\"\", replicas=1, min_replicas=0, wait_for_space=True, "
    "wait_for_writer=False, timeout=None, cancel=None)\n--\n\n"
    "Stores bytes under a key. Returns True: stored, and readable by every client; or False: the "
    "key was there before, as objects never change.\n\n"
    "`value`: a buffer, a contiguous CPU torch tensor, or a list of these, which is their "
    "concatenation; not copied. `parent`: key of the block before this one in its prompt. "
    "`replicas`: copies on different nodes; succeeds with `min_replicas` of them (0: all). "
    "`wait_for_space`: wait until something may be evicted. `wait_for_writer`: when another client "
    "is writing the key, wait for the outcome. `timeout`: seconds for all of it, above 0; None: "
    "the client's. `cancel`: a CancelSource that ends it sooner.\n\n"
    "Raises Aborted (BEING_WRITTEN), ResourceExhausted (NO_SPACE, LIMIT_REACHED), InvalidArgument, "
    "Unavailable, DeadlineExceeded, Cancelled.";

inline constexpr const char* kPutMany =
    "put_many($self, keys, values, *, parents=None, replicas=1, min_replicas=0, "
    "wait_for_space=True, wait_for_writer=False, timeout=None, cancel=None)\n--\n\n"
    "Stores `values[i]` under `keys[i]`, with `parents[i]` as the key of the block before it: "
    "one call to the master for all, and all nodes at once. At most 16384 keys, each once.\n\n"
    "Returns a list, one entry a key: True: stored, and readable by every client; False: it was "
    "there before; or the MoonpoolError why not, as put() would raise it. Some may be stored "
    "where others are not.\n\n"
    "`values[i]`: as in put(), a buffer, a contiguous CPU torch tensor, or a list of these; "
    "borrowed until the call returns. `parents`: \"\" for one that has none. `replicas`, "
    "`min_replicas`, `wait_for_space`, `wait_for_writer`: as in put(), for each of them. "
    "`timeout`: seconds for all of it, above 0; None: the client's. `cancel`: a CancelSource "
    "that ends it sooner.\n\n"
    "Items that the time did not suffice for are DeadlineExceeded, those that were cut off "
    "Cancelled; the others stand. Raises only for wrong usage: a timeout that is not positive, "
    "arguments of the wrong type (TypeError, BufferError), a closed client "
    "(FailedPrecondition), lists of different lengths (InvalidArgument).";

inline constexpr const char* kGet =
    "get($self, key, *, verify=None, timeout=None, cancel=None)\n--\n\n"
    "Returns the bytes of the object, as bytes.\n\n"
    "`verify`: None: as the client was made; False: bytes are not compared with their checksum. "
    "Another object's are never returned. `timeout`: seconds for all of it, above 0; None: the "
    "client's. `cancel`: a CancelSource that ends it sooner.\n\n"
    "Raises Miss with the reason (NEVER_STORED, EVICTED, EXPIRED, REMOVED, BEING_WRITTEN, "
    "NODE_LOST, CHECKSUM_MISMATCH, STALE_GENERATION). Raises DeadlineExceeded, Cancelled, and "
    "Unavailable where master or nodes are out of reach.";

inline constexpr const char* kGetMany =
    "get_many($self, keys, *, verify=None, timeout=None, cancel=None)\n--\n\n"
    "Reads many objects: one call to the master for all whose place is not known, and all nodes "
    "at once. At most 16384 keys; one may stand more than once.\n\n"
    "Returns a list, one entry a key: the bytes, or the MoonpoolError why there are none. A key "
    "that is not there is a Miss with the reason, as get() would raise it.\n\n"
    "`verify`: None: as the client was made; False: bytes are not compared with their checksum. "
    "Another object's are never returned. `timeout`: seconds for all of it, above 0; None: the "
    "client's. `cancel`: a CancelSource that ends it sooner.\n\n"
    "Items that the time did not suffice for are DeadlineExceeded, those that were cut off "
    "Cancelled; the others stand. Raises only for wrong usage: a timeout that is not positive, "
    "arguments of the wrong type (TypeError, BufferError), a closed client "
    "(FailedPrecondition).";

inline constexpr const char* kGetInto =
    "get_into($self, key, target, *, verify=None, timeout=None, cancel=None)\n--\n\n"
    "Reads the object into `target`, a writable buffer, a contiguous CPU torch tensor, or a "
    "list of these that is filled in order. Nothing touches it after the call has returned.\n\n"
    "Returns the bytes read. More room than the object has is fine, and less raises "
    "InvalidArgument (BUFFER_TOO_SHORT) with nothing read.\n\n"
    "`verify`: None: as the client was made; False: bytes are not compared with their checksum. "
    "Another object's are never returned. `timeout`: seconds for all of it, above 0; None: the "
    "client's. `cancel`: a CancelSource that ends it sooner.\n\n"
    "Raises Miss with the reason. Raises DeadlineExceeded, Cancelled, and Unavailable where "
    "master or nodes are out of reach. After an error other than BUFFER_TOO_SHORT the target "
    "holds anything.";

inline constexpr const char* kGetIntoMany =
    "get_into_many($self, keys, targets, *, verify=None, timeout=None, cancel=None)\n--\n\n"
    "Reads many objects, `keys[i]` into `targets[i]`, as get_into() does: one call to the "
    "master for all whose place is not known, and all nodes at once. At most 16384 keys. "
    "No two targets share memory: they are filled side by side. Nothing touches the targets after "
    "the call has returned.\n\n"
    "Returns a list, one entry a key: the bytes read, or the MoonpoolError why not: Miss, "
    "InvalidArgument (BUFFER_TOO_SHORT) and so on. The target of an entry that is an error "
    "holds anything.\n\n"
    "`verify`: None: as the client was made; False: bytes are not compared with their checksum. "
    "Another object's are never returned. `timeout`: seconds for all of it, above 0; None: the "
    "client's. `cancel`: a CancelSource that ends it sooner.\n\n"
    "Items that the time did not suffice for are DeadlineExceeded, those that were cut off "
    "Cancelled; the others stand. Raises only for wrong usage: a timeout that is not positive, "
    "arguments of the wrong type (TypeError, BufferError), a closed client "
    "(FailedPrecondition), lists of different lengths (InvalidArgument), a target that cannot "
    "be written (BufferError).";

inline constexpr const char* kGetView =
    "get_view($self, key, *, verify=None, timeout=None, cancel=None)\n--\n\n"
    "Returns a View of the object's bytes in the pool itself: no copy. While it lives they stay "
    "as they are and cannot be evicted: release it soon, or use it in a with statement.\n\n"
    "`verify`: None: as the client was made; False: bytes are not compared with their checksum. "
    "Another object's are never returned. `timeout`: seconds for all of it, above 0; None: the "
    "client's. `cancel`: a CancelSource that ends it sooner.\n\n"
    "Same host only: an object elsewhere raises FailedPrecondition (PEER_UNREACHABLE). Raises "
    "Miss with the reason. Raises DeadlineExceeded, Cancelled, and Unavailable where master or "
    "nodes are out of reach.";

inline constexpr const char* kGetViewMany =
    "get_view_many($self, keys, *, verify=None, timeout=None, cancel=None)\n--\n\n"
    "Views of many objects, as get_view() makes them; at most 16384 keys.\n\n"
    "Returns a list, one entry a key: a View, which the caller releases, or the MoonpoolError "
    "why there is none. Objects of other hosts are FailedPrecondition (PEER_UNREACHABLE).\n\n"
    "`verify`: None: as the client was made; False: bytes are not compared with their checksum. "
    "Another object's are never returned. `timeout`: seconds for all of it, above 0; None: the "
    "client's. `cancel`: a CancelSource that ends it sooner.\n\n"
    "Items that the time did not suffice for are DeadlineExceeded, those that were cut off "
    "Cancelled; the others stand. Raises only for wrong usage: a timeout that is not positive, "
    "arguments of the wrong type (TypeError, BufferError), a closed client "
    "(FailedPrecondition).";

inline constexpr const char* kExists =
    "exists($self, key, *, timeout=None, cancel=None)\n--\n\n"
    "Returns whether the key is readable now. Takes no lease: it may be gone a moment later.\n\n"
    "`timeout`: seconds for all of it, above 0; None: the client's. `cancel`: a CancelSource "
    "that ends it sooner.\n\n"
    "Raises DeadlineExceeded, Cancelled, and Unavailable where master or nodes are out of "
    "reach.";

inline constexpr const char* kExistsMany =
    "exists_many($self, keys, *, timeout=None, cancel=None)\n--\n\n"
    "Asks for many keys in one call to the master; at most 16384.\n\n"
    "Returns a list, one entry a key: True, False, or the MoonpoolError where nobody could say.\n\n"
    "`timeout`: seconds for all of it, above 0; None: the client's. `cancel`: a CancelSource "
    "that ends it sooner.\n\n"
    "Raises only for wrong usage: a timeout that is not positive, arguments of the wrong type "
    "(TypeError, BufferError), a closed client (FailedPrecondition).";

inline constexpr const char* kMatchPrefix =
    "match_prefix($self, keys, *, hold=0.0, timeout=None, cancel=None)\n--\n\n"
    "How many leading keys of one chain, first block first, are readable: one call to the "
    "master, and a PrefixMatch.\n\n"
    "`hold`: seconds for which what was found stays in place (bounded by the pool), for who "
    "will read it in a moment; 0: no lease. `timeout`: seconds for all of it, above 0; None: "
    "the client's. `cancel`: a CancelSource that ends it sooner.\n\n"
    "That a key is not there is no error: the PrefixMatch has the Miss. Raises "
    "DeadlineExceeded, Cancelled, and Unavailable where master or nodes are out of reach.";

inline constexpr const char* kDescribe =
    "describe($self, key, *, timeout=None, cancel=None)\n--\n\n"
    "What the pool has of a key: a Description. Asks the master each time, and counts as a read "
    "where the pool decides what to evict.\n\n"
    "`timeout`: seconds for all of it, above 0; None: the client's. `cancel`: a CancelSource "
    "that ends it sooner.\n\n"
    "Raises Miss with the reason. Raises DeadlineExceeded, Cancelled, and Unavailable where "
    "master or nodes are out of reach.";

inline constexpr const char* kDescribeMany =
    "describe_many($self, keys, *, timeout=None, cancel=None)\n--\n\n"
    "Describes many keys in one call to the master; at most 16384.\n\n"
    "Returns a list, one entry a key: a Description, or the MoonpoolError why there is none, "
    "Miss for a key that is not there.\n\n"
    "`timeout`: seconds for all of it, above 0; None: the client's. `cancel`: a CancelSource "
    "that ends it sooner.\n\n"
    "Raises only for wrong usage: a timeout that is not positive, arguments of the wrong type "
    "(TypeError, BufferError), a closed client (FailedPrecondition).";

inline constexpr const char* kListKeys =
    "list_keys($self, prefix=\"\", *, limit=1000, after=\"\", timeout=None, cancel=None)\n--\n\n"
    "Keys of the namespace that start with `prefix`: a KeyPage of at most `limit`, fewer after "
    "an error in the middle, which is met again from its `next`. `after`: the `next` of the "
    "page before, which is good for as long as the same master leads. Every key that is there "
    "all the time is in one page; what is stored or removed meanwhile may be. For operators and "
    "clean-up: the master looks at all that it has.\n\n"
    "`timeout`: seconds for all of it, above 0; None: the client's. `cancel`: a CancelSource "
    "that ends it sooner.\n\n"
    "Raises InvalidArgument for a limit of 0 or an `after` of another master. Raises "
    "DeadlineExceeded, Cancelled, and Unavailable where master or nodes are out of reach.";

inline constexpr const char* kDescription =
    "Outcome of Client.describe: `nbytes`, and `replicas`, of each that can be read the names "
    "of the nodes that hold it.";

inline constexpr const char* kKeyPage =
    "Outcome of Client.list_keys: `keys`, in no order, and `next`, for `after`; \"\" when there "
    "are no more.";

inline constexpr const char* kRemove =
    "remove($self, key, *, timeout=None, cancel=None)\n--\n\n"
    "Removes the key for everybody. Returns True when it was there, False when not.\n\n"
    "`timeout`: seconds for all of it, above 0; None: the client's. `cancel`: a CancelSource "
    "that ends it sooner.\n\n"
    "Raises ResourceExhausted when the pool has too many removals to remember. Raises "
    "DeadlineExceeded, Cancelled, and Unavailable where master or nodes are out of reach.";

inline constexpr const char* kRemoveMany =
    "remove_many($self, keys, *, timeout=None, cancel=None)\n--\n\n"
    "Removes many keys for everybody, in one call to the master; at most 16384.\n\n"
    "Returns a list, one entry a key: True: it was there; False: it was not; or the "
    "MoonpoolError why it may still be there.\n\n"
    "`timeout`: seconds for all of it, above 0; None: the client's. `cancel`: a CancelSource "
    "that ends it sooner.\n\n"
    "Raises only for wrong usage: a timeout that is not positive, arguments of the wrong type "
    "(TypeError, BufferError), a closed client (FailedPrecondition).";

inline constexpr const char* kStats =
    "stats($self)\n--\n\n"
    "Counters since the client was made, by name: gets, hits, misses, get_bytes, puts, "
    "put_bytes, location_cache_hits, master_calls, relocated, failovers, checksum_failures. "
    "Asks nobody.";

inline constexpr const char* kClose =
    "close($self)\n--\n\n"
    "Lets go of connections. Calls under way on other threads end as they would have; later ones "
    "raise FailedPrecondition. Again: nothing.";

inline constexpr const char* kPrefixMatch =
    "Outcome of Client.match_prefix: `matched`, how many leading keys are readable; `sizes`, "
    "the bytes of each of them; `held`, seconds for which they stay in place; `miss`, why the "
    "next key missed, None when all matched.";

inline constexpr const char* kCancelSource =
    "Ends calls that are under way: pass it as `cancel`, and call cancel() on another thread. The "
    "calls raise Cancelled soon, and have let go of their buffers when they do.";

}  // namespace moonpool::python::docs
