// What the kernel knows of this process, read when somebody scrapes.

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/clock.h"
#include "common/metrics/metrics.h"

namespace moonpool::metrics {
namespace {

double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  double total_pages = 0;
  double resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double OpenFiles() {
  std::error_code error;
  std::filesystem::directory_iterator files("/proc/self/fd", error);
  return error ? 0 : static_cast<double>(std::distance(begin(files), end(files)));
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return absl::ToDoubleSeconds(absl::DurationFromTimeval(usage.ru_utime) +
                               absl::DurationFromTimeval(usage.ru_stime));
}

}  // namespace

void AddProcessMetrics(Registry& registry, absl::string_view version) {
  registry.AddSampledGauge("moonpool_process_resident_bytes", "Resident memory.", ResidentBytes);
  registry.AddSampledGauge("moonpool_process_open_files", "Open file descriptors.", OpenFiles);
  registry.AddSampledGauge("moonpool_process_cpu_seconds", "CPU time used, all threads.",
                           CpuSeconds);
  registry.AddSampledGauge("moonpool_process_uptime_seconds", "Time since the process started.",
                           [started = SteadyClock().Now()] {
                             return absl::ToDoubleSeconds(SteadyClock().Now() - started);
                           });
  registry
      .AddGauge("moonpool_process_build_info", "Always 1; the version is a label.",
                {{"version", std::string(version)}})
      .Set(1);
}

}  // namespace moonpool::metrics
