// Requests about many keys, read without messages: as protobuf reads them, whatever they are.
#include <cstddef>
#include <cstdint>
#include <string>

#include "google/protobuf/stubs/logging.h"
#include "master/handlers/testing/check_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace moonpool;
  if (size == 0) return 0;
  google::protobuf::SetLogHandler(nullptr);  // what does not parse is no news here
  const std::string request(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  if (bytes[0] % 2 == 0) {
    master::CheckRequest<master::KeysRequest, v1::LocateRequest>(request);
  } else {
    master::CheckRequest<master::StartPutsView, v1::StartPutsRequest>(request);
  }
  return 0;
}
