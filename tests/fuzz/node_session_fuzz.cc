// What storage nodes say to the master, against its real core: a node may lose what it holds, and
// lie about it, but never break the books or take the master down.
#include <cstdint>

#include "tests/fuzz/byte_feed.h"
#include "tests/fuzz/client_steps.h"
#include "tests/fuzz/master_scene.h"
#include "tests/fuzz/node_steps.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace moonpool::master;
  moonpool::ByteFeed feed(data, size);
  MasterScene scene(feed);
  NodeSteps nodes(scene);
  ClientSteps clients(scene);
  while (!feed.empty()) {
    switch (feed.Below(8)) {
      case 0: nodes.AddHonest(); break;
      case 1: clients.PutStep(); break;
      case 2: clients.Step(); break;
      case 3: scene.TimeStep(); break;
      default: nodes.Step(); break;
    }
    scene.Check();
  }
  nodes.End();
  scene.End();
  return 0;
}
