// For who wants the answer of any call as a message, whether its handler makes one or writes bytes.
#pragma once

#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "common/check.h"
#include "common/wire/encoded.h"
#include "master/handlers/done.h"

namespace moonpool::master {

template <typename Response>
struct MessageDone {
  absl::AnyInvocable<void(absl::Status, Response) &&> ended;

  operator Done<Response>() && { return DoneWith<Response>(std::move(ended)); }
  operator Done<Encoded<Response>>() && {
    return DoneWith<Encoded<Response>>(
        [ended = std::move(ended)](absl::Status status, Encoded<Response> encoded) mutable {
          Response response;
          MP_CHECK(response.ParseFromString(encoded.bytes), "an answer that nobody can read");
          MP_CHECK(response.SerializeAsString() == encoded.bytes, "not as protobuf writes it");
          std::move(ended)(std::move(status), std::move(response));
        });
  }
};

}  // namespace moonpool::master
