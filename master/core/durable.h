// What of a core has to outlive it: what no node could tell the next master.
//
// A core that keeps durable state names each change of it in its effects, numbered from 1 without
// gaps; an answer that must not be given before a change is durable names the change's number. The
// core itself writes nothing and waits for nothing: that is done around it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/types.h"

namespace moonpool::master {

struct DurableNamespace {
  std::string name = {};
  std::string fingerprint = {};
  bool operator==(const DurableNamespace&) const = default;
};

// A name of a node and the incarnation that is entitled to it.
struct DurableNode {
  std::string name = {};
  Incarnation incarnation = {};
  // What it may hold of this generation and older ones was given up before it registered.
  Generation given_up_to = {};
  bool operator==(const DurableNode&) const = default;
};

// A removed key that some node may still hold.
struct DurableRemoval {
  std::string name_space = {};
  std::string key = {};
  Generation generation = {};  // this and every older one is dead
  bool operator==(const DurableRemoval&) const = default;
};

// A node that an operator wants empty.
struct DurableDrain {
  std::string name = {};
  bool operator==(const DurableDrain&) const = default;
};

// What was left by the masters before.
struct DurableState {
  Term term = {};  // 0: not known
  // Nodes that are not in the registry have nothing that is worth keeping. Not so while durable
  // state is new: there may be nodes and objects of masters that kept none.
  bool is_registry_closed = false;
  std::vector<DurableNamespace> namespaces = {};
  std::vector<DurableNode> nodes = {};
  std::vector<DurableRemoval> removals = {};
  std::vector<DurableDrain> drains = {};
  bool operator==(const DurableState&) const = default;
};

struct RegistryClosed {
  bool operator==(const RegistryClosed&) const = default;
};
// The incarnation of this node is given up, or gone.
struct NodeForgotten {
  std::string name = {};
  bool operator==(const NodeForgotten&) const = default;
};
// Nobody can bring the key back any more.
struct RemovalForgotten {
  std::string name_space = {};
  std::string key = {};
  bool operator==(const RemovalForgotten&) const = default;
};

// It is called off, or its node is forgotten.
struct DrainEnded {
  std::string name = {};
  bool operator==(const DrainEnded&) const = default;
};

// Each names all there is to know of its subject: a later one replaces an earlier one.
using DurableChange =
    std::variant<Term, RegistryClosed, DurableNamespace, DurableNode, NodeForgotten, DurableRemoval,
                 RemovalForgotten, DurableDrain, DrainEnded>;

// The number of a change that an answer depends on; 0: of none.
using ChangeNumber = uint64_t;

}  // namespace moonpool::master
