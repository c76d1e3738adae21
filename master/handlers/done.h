// How a call ends, and where its answer is written.
#pragma once

#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

namespace moonpool::master {

// The response is the caller's, who knows best where it should lie (in an arena that is freed at
// once): it is empty at first and lives until the call ends. With a status that is not OK it means
// nothing. `ended` is called exactly once and must not call back into the Handlers.
template <typename Response>
class Done {
 public:
  using Ended = absl::AnyInvocable<void(absl::Status) &&>;
  Done(Response* response, Ended ended) : response_(response), ended_(std::move(ended)) {}

  Response& response() { return *response_; }
  void operator()(absl::Status status) && { std::move(ended_)(std::move(status)); }

 private:
  Response* response_;
  Ended ended_;
};

// For who has no better place for the response: it is handed over at the end.
template <typename Response>
Done<Response> DoneWith(absl::AnyInvocable<void(absl::Status, Response) &&> ended) {
  auto response = std::make_unique<Response>();
  Response* const written = response.get();
  return Done<Response>(written, [response = std::move(response),
                                  ended = std::move(ended)](absl::Status status) mutable {
    std::move(ended)(std::move(status), std::move(*response));
  });
}

}  // namespace moonpool::master
