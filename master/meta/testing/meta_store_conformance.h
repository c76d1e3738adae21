// One suite that every MetaStore passes: what master/meta/meta_store.h promises.
//
//   class RocksUnderTest : public MetaStoreUnderTest { ... };
//   const bool registered = RegisterMetaStoreConformance(
//       "Rocks", [] { return std::make_unique<RocksUnderTest>(); });
//
// registers one gtest case per promise ("RocksMetaConformance.ABatchIsAtomic").
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "master/meta/meta_store.h"

namespace moonpool::master {

// One per case: a place that is empty at first, and the stores that are opened there, one at a
// time.
class MetaStoreUnderTest {
 public:
  virtual ~MetaStoreUnderTest() = default;
  virtual absl::StatusOr<std::unique_ptr<MetaStore>> Open() = 0;
  // More writes than this are never under way.
  virtual size_t writes_max() const = 0;
  // Writes from now on stay under way until Release.
  virtual void Hold(MetaStore& store) = 0;
  virtual void Release(MetaStore& store) = 0;
};

using MetaStoreFactory = std::function<std::unique_ptr<MetaStoreUnderTest>()>;

// For a static initialiser. Always true.
bool RegisterMetaStoreConformance(const std::string& name, MetaStoreFactory factory);

}  // namespace moonpool::master
