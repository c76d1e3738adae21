#include "tests/sim/probes.h"

#include "absl/strings/str_cat.h"
#include "common/checksum.h"

namespace moonpool::sim {

void AddProbes(const SimMaster& leader, Probes& probes) {
  const master::Totals totals = leader.core().GetStatus(leader.Now()).totals;
  probes["evicted"] += totals.evicted;
  probes["grants aborted"] += totals.puts_aborted;
  probes["puts refused"] += totals.puts_refused;
  probes["objects adopted"] += totals.adopted;
  probes["objects lost"] += totals.lost;
  probes["removed"] += totals.removed;
  probes["copies made"] += totals.copies_ended[static_cast<size_t>(master::CopyEnd::kDone)];
  probes["replicas trimmed"] += totals.replicas_trimmed;
  probes["spare grants given"] += totals.spares_given;
  probes["spare grants used"] += totals.spares_used;
  probes["spare grants refused"] += totals.spares_refused;
}

void AddProbes(const SimNode& node, Probes& probes) {
  probes["records torn"] += node.damaged_records();
  const storage_node::SegmentStats stats = node.index().stats(0);
  probes["parts superseded"] += stats.superseded_parts;
  probes["parts freed"] += stats.freed_parts;
  probes["parts found damaged"] += stats.damaged_parts;
  probes["parts doubted"] += node.scrub_metrics().doubted_parts.value();
  probes["bytes copied"] += node.copy_metrics().bytes.value();
}

void AddProbes(const SimClient& client, Probes& probes) {
  const ClientStats stats = client.stats();
  probes["location cache hits"] += stats.location_cache_hits;
  probes["relocated"] += stats.relocated;
  probes["failovers"] += stats.failovers;
  probes["checksum failures caught"] += stats.checksum_failures;
  probes["views kept through a freeze"] += client.views_kept_frozen();
}

uint64_t Fingerprint(const SimResult& result) {
  std::string text =
      absl::StrCat(result.events, " ", result.counts.puts, " ", result.counts.acknowledged, " ",
                   result.counts.gets, " ", result.counts.hits, " ", result.counts.removes);
  for (const auto& [name, count] : result.probes) absl::StrAppend(&text, name, count);
  for (const auto& [name, count] : result.counts.misses) absl::StrAppend(&text, name, count);
  for (const auto& [name, count] : result.counts.refusals) absl::StrAppend(&text, name, count);
  return Checksum(text);
}

}  // namespace moonpool::sim
