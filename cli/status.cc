// moonpool status: the pool in a screenful.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/commands.h"
#include "cli/output/fields.h"
#include "cli/output/table.h"
#include "common/config/units.h"
#include "common/error.h"
#include "common/human_duration.h"

namespace moonpool::cli {
namespace {

using Json = nlohmann::ordered_json;

Json TotalsToJson(const v1::Totals& totals) {
  return {{"puts_started", totals.puts_started()},
          {"puts_committed", totals.puts_committed()},
          {"puts_refused", totals.puts_refused()},
          {"puts_aborted", totals.puts_aborted()},
          {"keys_located", totals.keys_located()},
          {"keys_missed", totals.keys_missed()},
          {"evicted", totals.evicted()},
          {"evicted_bytes", totals.evicted_bytes()},
          {"removed", totals.removed()},
          {"lost", totals.lost()},
          {"copies_started", totals.copies_started()},
          {"copies_done", totals.copies_done()},
          {"copies_failed", totals.copies_failed()},
          {"copied_bytes", totals.copied_bytes()},
          {"replicas_trimmed", totals.replicas_trimmed()},
          {"parts_damaged", totals.parts_damaged()},
          {"spares_given", totals.spares_given()},
          {"spares_used", totals.spares_used()},
          {"spares_refused", totals.spares_refused()}};
}

Json ToJson(const v1::GetStatusResponse& status, const std::string& master) {
  Json namespaces = Json::array();
  for (const v1::NamespaceStatus& name_space : status.namespaces()) {
    namespaces.push_back({{"name", name_space.name()},
                          {"fingerprint", name_space.fingerprint()},
                          {"objects", name_space.objects()},
                          {"bytes", name_space.bytes()}});
  }
  return {{"master", master},
          {"release", status.release()},
          {"term", status.term()},
          {"uptime_ms", status.uptime_ms()},
          {"nodes_up", status.nodes_up()},
          {"nodes_known", status.nodes_known()},
          {"objects", status.objects()},
          {"used_bytes", status.used_bytes()},
          {"capacity_bytes", status.capacity_bytes()},
          {"open_grants", status.open_grants()},
          {"spare_grants", status.spare_grants()},
          {"live_leases", status.live_leases()},
          {"leased_bytes", status.leased_bytes()},
          {"eviction_policy", status.eviction_policy()},
          {"adopted_objects", status.adopted_objects()},
          {"takeover_ms", status.takeover_ms()},
          {"short_objects", status.short_objects()},
          {"copies_in_flight", status.copies_in_flight()},
          {"copies_waiting", status.copies_waiting()},
          {"namespaces", namespaces},
          {"totals", TotalsToJson(status.totals())}};
}

std::string Human(uint64_t millis) { return HumanDuration(DurationFromMs(millis)); }

double Percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

void PrintText(const v1::GetStatusResponse& status, const std::string& master) {
  const v1::Totals& totals = status.totals();
  Fields fields;
  fields.Add("master", absl::StrFormat("%s; moonpool %s, term %d, up %s", master, status.release(),
                                       status.term(), Human(status.uptime_ms())));
  fields.Add("nodes",
             absl::StrFormat("%d up of %d known", status.nodes_up(), status.nodes_known()));
  fields.Add("memory", absl::StrFormat("%s used of %s (%.1f%%)", HumanBytes(status.used_bytes()),
                                       HumanBytes(status.capacity_bytes()),
                                       Percent(status.used_bytes(), status.capacity_bytes())));
  fields.Add("objects",
             absl::StrFormat("%d; eviction by %s", status.objects(), status.eviction_policy()));
  if (status.takeover_ms() > 0) {
    fields.Add("take-over",
               absl::StrFormat("for %s more none of the %d adopted objects is evicted, "
                               "since the master before may have leased them: puts "
                               "on a full pool wait",
                               Human(status.takeover_ms()), status.adopted_objects()));
  }
  fields.Add("in flight", absl::StrFormat("%d puts; %d leases on %s", status.open_grants(),
                                          status.live_leases(), HumanBytes(status.leased_bytes())));
  fields.Add("puts",
             absl::StrFormat("%d committed, %d refused, %d aborted", totals.puts_committed(),
                             totals.puts_refused(), totals.puts_aborted()));
  const uint64_t looked = totals.keys_located() + totals.keys_missed();
  fields.Add("lookups", absl::StrFormat("%d keys, %.1f%% found", looked,
                                        Percent(totals.keys_located(), looked)));
  fields.Add("gone",
             absl::StrFormat("%d evicted (%s), %d removed, %d lost with nodes", totals.evicted(),
                             HumanBytes(totals.evicted_bytes()), totals.removed(), totals.lost()));
  if (status.short_objects() + totals.copies_started() > 0) {
    fields.Add(
        "replicas",
        absl::StrFormat("%d objects have fewer than asked for; %d being copied; %d copied "
                        "(%s), %d failed",
                        status.short_objects(), status.copies_in_flight(), totals.copies_done(),
                        HumanBytes(totals.copied_bytes()), totals.copies_failed()));
  }
  fields.Print(stdout);
  Table table({{"namespace", Align::kLeft, Fit::kShrink},
               {"objects", Align::kRight},
               {"bytes", Align::kRight},
               {"fingerprint", Align::kLeft, Fit::kShrinkThenDrop}});
  for (const v1::NamespaceStatus& name_space : status.namespaces()) {
    table.AddRow({name_space.name(), absl::StrCat(name_space.objects()),
                  HumanBytes(name_space.bytes()),
                  name_space.fingerprint().empty() ? "-" : name_space.fingerprint()});
  }
  std::puts("");
  table.Print(stdout);
}

int Run(const Session& session) {
  MasterLink link = session.Link();
  const auto status = link.GetStatus();
  if (!status.ok()) return Fail(session, status.status());
  if (session.json) {
    PrintJson(ToJson(*status, link.leader()));
  } else {
    PrintText(*status, link.leader());
  }
  return kOk;
}

}  // namespace

void AddStatusCommand(CLI::App& app, Session& session) {
  CLI::App* const command =
      AddPoolCommand(app, session, "status", "The pool in a screenful: memory, objects, totals",
                     {"moonpool status\nmoonpool status --json | jq .used_bytes"});
  AddJsonFlag(*command, session);
  command->callback([&session] { session.run = [&session] { return Run(session); }; });
}

}  // namespace moonpool::cli
