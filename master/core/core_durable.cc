// What outlives the core: what it was given of the masters before, and the changes that are to be
// kept for those to come.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "common/guard.h"
#include "master/core/core.h"
#include "master/core/core_state.h"

namespace moonpool::master {

Core::Core(CoreOptions options, Term term, Random random, const DurableState& left)
    : Core(std::move(options), term, random) {
  state_->Restore(left);
}

ChangeNumber Core::term_saved_by() const { return state_->term_saved_by; }

void Core::Saved(ChangeNumber number) { state_->durable_up_to = number; }

ChangeNumber Core::strike_saved_by() const { return state_->strike_saved_by; }

void CoreState::Restore(const DurableState& left) {
  keeps_state = true;
  for (const DurableNamespace& known : left.namespaces) namespaces.Restore(known);
  is_registry_closed = left.is_registry_closed;
  is_registry_to_close = !is_registry_closed;
  for (const DurableNode& node : left.nodes) {
    registry[node.name] =
        RegisteredNode{.incarnation = node.incarnation, .given_up_to = node.given_up_to};
  }
  unmet_nodes = static_cast<uint32_t>(registry.size());
  for (const DurableDrain& drain : left.drains) keeper.drains().Add(drain.name);
  for (const DurableRemoval& removal : left.removals) {
    const auto home = namespaces.FindOrAdd(removal.name_space);
    // Without room for the namespace none of its keys is taken from any node.
    if (!home.has_value()) continue;
    const RemoveTicket ticket = tombstones.Add(Tombstone{.name_space = home->id,
                                                         .key = removal.key,
                                                         .generation = removal.generation,
                                                         .is_durable = true});
    tombstones.Await(ticket);
    awaiting_unmet.push_back(ticket);
  }
}

ChangeNumber CoreState::Save(DurableChange change) {
  if (!keeps_state) return 0;
  unsaved.push_back(std::move(change));
  return ++saved_changes;
}

void CoreState::SaveNamespace(NamespaceRecord& record) {
  if (record.fingerprint.empty() || record.is_saved) return;
  record.is_saved = true;
  record.saved_by = Save(DurableNamespace{record.name, record.fingerprint});
}

ChangeNumber CoreState::RegisteredBy(const RegisterNodeCommand& node) const {
  const auto known = registry.find(node.name);
  const ChangeNumber saved_by = known == registry.end() ? 0 : known->second.saved_by;
  return std::max(term_saved_by, saved_by);
}

bool CoreState::IsRegistered(const RegisterNodeCommand& node) const {
  const auto known = registry.find(node.name);
  return known != registry.end() && known->second.incarnation == node.incarnation;
}

Generation CoreState::GivenUpTo(const RegisterNodeCommand& node) const {
  if (!keeps_state) return {};
  if (IsRegistered(node)) return registry.at(node.name).given_up_to;
  const bool may_be_unknown = !is_registry_closed && !nodes.ReadmitAt(node).has_value();
  return may_be_unknown ? Generation{} : Generation::Of(term, counter);
}

void CoreState::Enlist(const RegisterNodeCommand& node, Generation given_up_to) {
  if (!keeps_state || IsRegistered(node)) return;
  const bool is_another = registry.contains(node.name);
  if (!is_another && registry.size() >= options.max_nodes) {
    // One that this master has never met, or has released.
    const auto absent = std::find_if(registry.begin(), registry.end(), [&](const auto& known) {
      return !nodes.by_name().contains(known.first);
    });
    if (absent != registry.end()) {
      Strike(std::string(absent->first), absent->second.incarnation);
    }
  }
  const ChangeNumber saved_by = Save(
      DurableNode{.name = node.name, .incarnation = node.incarnation, .given_up_to = given_up_to});
  if (is_another) strike_saved_by = saved_by;
  if (is_another && !registry.at(node.name).is_met) --unmet_nodes;
  // A stranger brings nothing: the master to come will not take it from it either.
  const bool is_met = given_up_to != Generation{};
  if (!is_met) ++unmet_nodes;
  registry[node.name] = RegisteredNode{.incarnation = node.incarnation,
                                       .given_up_to = given_up_to,
                                       .saved_by = saved_by,
                                       .is_met = is_met};
}

void CoreState::Strike(const std::string& name, Incarnation incarnation) {
  const auto known = registry.find(name);
  if (known == registry.end() || known->second.incarnation != incarnation) return;
  strike_saved_by = Save(NodeForgotten{name});
  if (!known->second.is_met) --unmet_nodes;
  registry.erase(known);
}

void CoreState::MarkMet(const RegisterNodeCommand& node) {
  if (!IsRegistered(node) || registry.at(node.name).is_met) return;
  registry.at(node.name).is_met = true;
  --unmet_nodes;
}

void CoreState::BelieveNodes() {
  for (const auto& [name, index] : nodes.by_name()) {
    NodeRecord& node = nodes[index];
    if (node.given_up_to == Generation{}) continue;
    RegisteredNode& known = registry.at(name);
    if (known.given_up_to == Generation{}) {
      // A master that comes before it is durable frees what is so old.
      if (known.saved_by <= durable_up_to) node.given_up_to = Generation{};
      continue;
    }
    const bool is_known = node.is_usable() && node.unswept == 0 && debts.OwesNothing(node.id) &&
                          node.bytes[static_cast<size_t>(ByteUse::kPartial)] == 0;
    if (!is_known) continue;
    known.given_up_to = Generation{};
    known.saved_by = Save(DurableNode{.name = name, .incarnation = known.incarnation});
  }
}

ChangeNumber CoreState::Entomb(NamespaceId name_space, absl::string_view key, RemoveTicket caller,
                               bool is_stuck) {
  if (!keeps_state || !GuardIsOn(Guard::kDurableRemoval)) return 0;
  const Generation newest = Generation::Of(term, counter);
  RemoveTicket durable = tombstones.DurableOf(name_space, key);
  const bool is_first = durable == RemoveTicket{};
  if (is_first) {
    durable = tombstones.Add(Tombstone{
        .name_space = name_space, .key = std::string(key), .generation = {}, .is_durable = true});
    if (unmet_nodes > 0) {
      tombstones.Await(durable);
      awaiting_unmet.push_back(durable);
    }
  }
  tombstones.Await(durable);  // this function
  for (uint32_t owed = debts.Attach(KeyHash(name_space, key), durable); owed > 0; --owed) {
    tombstones.Await(durable);
  }
  for (const auto& [name, index] : nodes.by_name()) {
    if (!debts.HasUnlisted(nodes[index].id)) continue;
    nodes[index].inventory_waiters.push_back(durable);
    tombstones.Await(durable);
  }
  Tombstone& stone = *tombstones.Find(durable);
  const bool is_needed = !is_first || stone.awaited > 1 || is_stuck;
  if (is_needed && stone.generation < newest) {
    SaveNamespace(namespaces[name_space]);  // else the next master takes it for one without layout
    stone.generation = newest;
    stone.saved_by =
        Save(DurableRemoval{namespaces[name_space].name, std::string(key), stone.generation});
  }
  if (is_needed && caller != RemoveTicket{}) {
    tombstones.Find(caller)->durable = durable;
    tombstones.Await(durable);
  }
  const ChangeNumber saved_by = stone.saved_by;
  if (is_needed) {
    Confirm(durable);
  } else {
    tombstones.Confirm(durable);  // nobody has heard of it
  }
  return saved_by;
}

void CoreState::ReleaseTombs(uint32_t* work) {
  while (unmet_nodes == 0 && *work > 0 && !awaiting_unmet.empty()) {
    const RemoveTicket ticket = awaiting_unmet.back();
    awaiting_unmet.pop_back();
    Confirm(ticket);
    --*work;
  }
}

void CoreState::CloseRegistry(absl::Time now) {
  if (!is_registry_to_close || now < started + options.registry_open) return;
  is_registry_to_close = false;
  Save(RegistryClosed{});
}

}  // namespace moonpool::master
