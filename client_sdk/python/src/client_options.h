// From arguments of Python's to a client.
#pragma once

#include <memory>

#include "client_sdk/python/src/keywords.h"
#include "moonpool/client.h"

namespace moonpool::python {

// Takes all that are ClientOptions' but `on_warning` (warnings.h). Raises InvalidArgument and
// TypeError.
ClientOptions TakeClientOptions(Keywords& keywords);

// Without the GIL. Raises. gRPC starts threads with the first client and cannot start them anew: in
// a child that was forked later a call would wait for ever, so there this raises, too.
std::unique_ptr<Client> Connect(const ClientOptions& options, const CancelToken& cancel = {});

}  // namespace moonpool::python
