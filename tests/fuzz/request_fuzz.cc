// What clients and operators ask of the master, against its real core, with nodes that do as they
// are told: every request is answered once, by what its bytes deserve, and the books stay right.
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
  nodes.AddHonest();
  while (!feed.empty()) {
    switch (feed.Below(8)) {
      case 0: nodes.AddHonest(); break;
      case 1: scene.TimeStep(); break;
      case 2: nodes.ObeyAll(); break;
      case 3: clients.PutStep(); break;
      default: clients.Step(); break;
    }
    scene.Check();
  }
  nodes.End();
  scene.End();
  return 0;
}
