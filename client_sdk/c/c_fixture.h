// A C client in front of a local pool.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client_sdk/src/testing/local_pool.h"
#include "common/clock.h"
#include "moonpool/c.h"

namespace moonpool {

// A struct that begins with its size, and is 0 otherwise.
template <typename Struct>
Struct Sized() {
  Struct made = {};
  made.struct_size = sizeof(made);
  return made;
}

class CFixture : public ::testing::Test {
 protected:
  CFixture() {
    options_.masters = master_.address().c_str();
    options_.on_warning = [](void* warnings, const char* line) {
      static_cast<std::string*>(warnings)->append(line).append("\n");
    };
    options_.warning_context = &warnings_;
  }
  ~CFixture() override { moonpool_close(client_); }

  // With options_; ends the client that there was.
  void Connect() {
    moonpool_close(client_);
    ASSERT_EQ(moonpool_connect(&options_, &client_), MOONPOOL_OK) << moonpool_last_error();
  }
  static moonpool_bytes BytesOf(const std::string& text) { return {text.data(), text.size()}; }
  void Put(const std::string& key, const std::string& value) {
    ASSERT_EQ(moonpool_put(client_, BytesOf(key), BytesOf(value), nullptr), MOONPOOL_OK)
        << moonpool_last_error();
  }
  // What the last failure on this thread was; its text names the reason.
  static int LastReason() { return moonpool_error_reason(moonpool_last_error_detail()); }

  SteadyClock clock_;
  LocalNode node_{clock_};
  LocalMaster master_{node_};
  std::string warnings_;
  moonpool_client_options options_ = Sized<moonpool_client_options>();
  moonpool_client* client_ = nullptr;
};

}  // namespace moonpool
