// A master for fuzz targets: a real core with tight bounds, its handlers, and what everybody has
// seen of it so far. After each step the core's books are counted again; each answer is looked at
// as the caller would, and comes exactly once.
//
//   MasterScene scene(feed);
//   ClientSteps clients(scene);
//   while (!feed.empty()) { clients.Step(); scene.Check(); }
//   scene.End();
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/check.h"
#include "common/error.h"
#include "common/types.h"
#include "master/core/core.h"
#include "master/handlers/handlers.h"
#include "moonpool/v1/admin.pb.h"
#include "moonpool/v1/master.pb.h"
#include "tests/fuzz/byte_feed.h"

namespace moonpool::master {

// A grant that was given, and what it was given for.
struct SeenGrant {
  std::string name_space;
  v1::PutKey put;
  v1::Grant grant;
};

class MasterScene {
 public:
  explicit MasterScene(ByteFeed& feed);
  // Shuts the master down. No session may be open.
  void End();

  ByteFeed& feed() { return feed_; }
  Handlers& handlers() { return handlers_; }
  absl::Time now() const { return now_; }
  Term term() const { return core_.term(); }

  // Lets some time go by; what is due at its end is done.
  void TimeStep();
  void Check() const;

  // A request as gRPC brings it: what does not parse never reaches the handlers, but for those who
  // read the bytes themselves.
  template <typename Argument, typename Written, typename Result, typename Request>
  void Call(Result (Handlers::*method)(const Argument&, absl::Time, Done<Written>),
            const Request& request);
  template <typename Request, typename Written, typename Result>
  void CallBytes(Result (Handlers::*method)(const Encoded<Request>&, absl::Time, Done<Written>),
                 absl::string_view bytes);
  // Somebody who waits gives up, or one who does not wait any more.
  void CancelStep();

  // The words of these inputs: few, so that they meet.
  std::string Key();
  std::string NameSpace();
  std::string NodeName();
  uint64_t Size();
  // One that was given; an empty one before the first.
  SeenGrant Grant();

 private:
  template <typename Argument, typename Written, typename Result, typename Request>
  void Send(Result (Handlers::*method)(const Argument&, absl::Time, Done<Written>),
            const Argument& argument, const Request& request);
  // The answer of a call as its caller sees it.
  template <typename Request, typename Response>
  void TakeAnswer(const Request& request, const absl::Status& status, const Response& response);
  void Look(const v1::StartPutsRequest& request, const v1::StartPutsResponse& response);
  void Look(const v1::CommitPutsRequest& request, const v1::CommitPutsResponse& response);
  void Look(const v1::LocateRequest& request, const v1::LocateResponse& response);
  void Look(const v1::MatchPrefixRequest& request, const v1::MatchPrefixResponse& response);
  void Look(const v1::ListObjectsRequest& request, const v1::ListObjectsResponse& response);
  template <typename Request, typename Response>
  void Look(const Request&, const Response&) {}

  ByteFeed& feed_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
  Core core_;
  Handlers handlers_;
  std::vector<int> answers_;     // how often each call was answered
  std::vector<CallId> waiting_;  // calls that were not answered at once
  std::deque<SeenGrant> grants_;
};

// What a peer would make of the message: refused strings are found only there.
template <typename Message>
void CheckReadable(const Message& message) {
  Message read;
  MP_CHECK(read.ParseFromString(message.SerializeAsString()), "a message that nobody can read",
           message.GetTypeName());
}

// The message that a handler has written.
template <typename Response>
const Response& Parsed(const Response& written) {
  return written;
}
template <typename Response>
Response Parsed(const Encoded<Response>& written) {
  Response response;
  MP_CHECK(response.ParseFromString(written.bytes), "an answer that nobody can read");
  MP_CHECK(response.SerializeAsString() == written.bytes, "not as protobuf writes it");
  return response;
}

template <typename Argument, typename Written, typename Result, typename Request>
void MasterScene::Call(Result (Handlers::*method)(const Argument&, absl::Time, Done<Written>),
                       const Request& request) {
  Request sent;
  if (sent.ParseFromString(request.SerializeAsString())) Send(method, Argument(sent), sent);
}

template <typename Request, typename Written, typename Result>
void MasterScene::CallBytes(Result (Handlers::*method)(const Encoded<Request>&, absl::Time,
                                                       Done<Written>),
                            absl::string_view bytes) {
  Encoded<Request> encoded;
  encoded.bytes = std::string(bytes);
  Request request;
  if (request.ParseFromString(encoded.bytes)) return Send(method, encoded, request);
  int answers = 0;
  (handlers_.*method)(encoded, now_, DoneWith<Written>([&](absl::Status status, Written) {
                        ++answers;
                        MP_CHECK(ReasonOf(status) == ErrorReason::kBadArgument, "no message",
                                 status.ToString());
                      }));
  MP_CHECK(answers == 1, "answers to what is no message", answers);
}

template <typename Argument, typename Written, typename Result, typename Request>
void MasterScene::Send(Result (Handlers::*method)(const Argument&, absl::Time, Done<Written>),
                       const Argument& argument, const Request& request) {
  const size_t number = answers_.size();
  answers_.push_back(0);
  auto done = DoneWith<Written>([this, number, request](absl::Status status, Written written) {
    ++answers_[number];
    TakeAnswer(request, status, Parsed(written));
  });
  if constexpr (std::is_same_v<Result, CallId>) {
    const CallId call = (handlers_.*method)(argument, now_, std::move(done));
    MP_CHECK((call.value == 0) == (answers_[number] == 1), "a call is answered, or waits");
    if (call.value != 0) waiting_.push_back(call);
  } else {
    (handlers_.*method)(argument, now_, std::move(done));
    MP_CHECK(answers_[number] == 1, "a call that does not wait was not answered");
  }
}

template <typename Request, typename Response>
void MasterScene::TakeAnswer(const Request& request, const absl::Status& status,
                             const Response& response) {
  if (!status.ok()) {
    MP_CHECK(!status.message().empty(), "an error without a cause");
    MP_CHECK(ReasonOf(status) != ErrorReason::kUnspecified, "no reason", status.ToString());
    return;
  }
  CheckReadable(response);
  if constexpr (requires { response.results_size(); }) {
    if constexpr (requires { request.keys_size(); }) {
      MP_CHECK(response.results_size() == request.keys_size(), "results for other keys");
    } else {
      MP_CHECK(response.results_size() == request.puts_size(), "results for other puts");
    }
  }
  Look(request, response);
}

}  // namespace moonpool::master
