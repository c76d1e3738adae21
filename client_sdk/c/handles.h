// What the opaque types of moonpool/c.h are. `new` makes them where a C function gives one out, and
// `delete` ends them where it takes one back.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "common/cancel.h"
#include "moonpool/client.h"

struct moonpool_client {
  explicit moonpool_client(std::unique_ptr<moonpool::Client> made) : client(std::move(made)) {}
  const std::unique_ptr<moonpool::Client> client;
};

struct moonpool_view {
  explicit moonpool_view(moonpool::View opened) : view(std::move(opened)) {}
  const moonpool::View view;
};

struct moonpool_keys {
  explicit moonpool_keys(moonpool::KeyPage found) : page(std::move(found)) {}
  const moonpool::KeyPage page;
};

struct moonpool_cancel {
  moonpool::CancelSource source;
};
