#include "bench/suite/rounds.h"

#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::bench {
namespace {

nlohmann::ordered_json ToJson(const Samples& samples) {
  nlohmann::ordered_json values = nlohmann::ordered_json::array();
  for (size_t round = 0; round < samples.size(); ++round) values.push_back(samples.at(round));
  return {{"median", samples.Median()},
          {"min", samples.Min()},
          {"max", samples.Max()},
          {"rounds", values}};
}

}  // namespace

absl::StatusOr<std::vector<CaseResult>> RunRounds(const std::vector<Case>& cases,
                                                  const RoundsOptions& options) {
  std::vector<CaseResult> results;
  for (const Case& one : cases) {
    results.push_back(
        {.name = one.name, .rate_unit = one.rate_unit, .rate = {}, .p50_us = {}, .cpu_s = {}});
  }
  size_t done = 0;
  for (int round = 0; round < options.rounds; ++round) {
    for (size_t i = 0; i < cases.size(); ++i) {
      RETURN_IF_ERROR(options.on_progress(done++, cases[i].name));
      const absl::StatusOr<Reading> reading = cases[i].measure(options.time_per_case);
      if (!reading.ok()) return Annotate(reading.status(), cases[i].name);
      if (reading->rate > 0) results[i].rate.Add(reading->rate);
      if (reading->p50_us > 0) results[i].p50_us.Add(reading->p50_us);
      if (reading->cpu_s > 0) results[i].cpu_s.Add(reading->cpu_s);
    }
  }
  return results;
}

nlohmann::ordered_json ToJson(const std::vector<CaseResult>& results) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const CaseResult& result : results) {
    nlohmann::ordered_json& entry = json[result.name];
    if (result.rate.size() > 0) {
      entry["rate"] = ToJson(result.rate);
      entry["rate_unit"] = result.rate_unit;
    }
    if (result.p50_us.size() > 0) entry["p50_us"] = ToJson(result.p50_us);
    if (result.cpu_s.size() > 0) entry["cpu_s_per_gb"] = ToJson(result.cpu_s);
  }
  return json;
}

}  // namespace moonpool::bench
