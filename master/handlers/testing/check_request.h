// That requests are read as protobuf reads the same bytes, whatever these are. Aborts when not.
#pragma once

#include <string>

#include "common/check.h"
#include "common/rpc/testing/check_answer.h"
#include "master/handlers/request_views.h"

namespace moonpool::master {

inline void CheckSame(const KeysRequest& read, const v1::LocateRequest& request) {
  MP_CHECK(read.keys() == ViewsOf(request.keys()), "keys", request.keys_size());
  MP_CHECK(read.batch() == request.keys_size(), "batch", read.batch());
  MP_CHECK(read.lease() == FromWireMs(request.lease_ms()), "lease");
  MP_CHECK(read.wait_for_writer() == request.wait_for_writer(), "wait_for_writer");
}

inline void CheckSame(const StartPutsView& read, const v1::StartPutsRequest& request) {
  MP_CHECK(read.request_id() == request.request_id(), "request id");
  MP_CHECK(read.replicas() == request.replicas(), "replicas");
  MP_CHECK(read.min_replicas() == request.min_replicas(), "min_replicas");
  MP_CHECK(read.wait_for_space() == request.wait_for_space(), "wait_for_space");
  MP_CHECK(read.wait_for_writer() == request.wait_for_writer(), "wait_for_writer");
  MP_CHECK(read.batch() == request.puts_size(), "batch", read.batch());
  for (int i = 0; i < read.batch(); ++i) {
    const PutKey& put = read.puts()[static_cast<size_t>(i)];
    MP_CHECK(put.key == request.puts(i).key(), "key");
    MP_CHECK(put.size_bytes == request.puts(i).size_bytes(), "size");
    MP_CHECK(put.parent == request.puts(i).parent(), "parent");
  }
}

// True: the bytes are a request.
template <typename View, typename Message>
bool CheckRequest(const std::string& bytes) {
  const View read(bytes);
  Message request;
  const bool is_parsed = request.ParseFromString(bytes);
  if (!read.status().ok()) {
    MP_CHECK(!is_parsed || HasGroup(request), "refused, though it is a request", bytes.size());
    return false;
  }
  MP_CHECK(is_parsed, "taken, though it is none", bytes.size());
  MP_CHECK(read.header().SerializeAsString() == request.header().SerializeAsString(), "header");
  CheckSame(read, request);
  return true;
}

}  // namespace moonpool::master
