// Storage nodes of a MasterScene that say whatever the input makes them say: messages that could
// be right, with any field wrong, in any order, and bytes that are no message at all.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "master/handlers/node_session.h"
#include "moonpool/v1/membership.pb.h"
#include "tests/fuzz/master_scene.h"

namespace moonpool::master {

class NodeSteps {
 public:
  explicit NodeSteps(MasterScene& scene) : scene_(scene), feed_(scene.feed()) {}
  // All streams end.
  void End();

  // One message, or a stream that begins or ends.
  void Step();
  // A node comes, reports nothing, and can be written to.
  void AddHonest();
  // All nodes do what they were told, and say so.
  void ObeyAll();

 private:
  struct Stream {
    std::unique_ptr<NodeSession> session;
    std::vector<v1::Command> commands = {};  // not answered yet
  };

  Stream& Pick();
  void Open(Stream& stream);
  void Close(Stream& stream);
  void Send(Stream& stream, const v1::NodeMessage& message);
  // Takes what the master has to say, and ends the stream when it says so.
  void Drain(Stream& stream);

  v1::NodeMessage Register();
  v1::NodeMessage Inventory();
  v1::NodeMessage SealReport();
  v1::NodeMessage CommandResult(Stream& stream);
  v1::NodeMessage PartsLost();
  v1::SealedPart Sealed();
  v1::SealedPart SealedAsGranted();
  v1::SealedPart SealedAnyhow();
  void Distort(v1::SealedPart& part);

  MasterScene& scene_;
  ByteFeed& feed_;
  std::array<Stream, 4> streams_;
};

}  // namespace moonpool::master
