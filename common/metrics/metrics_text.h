// Lines of the Prometheus text format, version 0.0.4. Internal to metrics.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "common/metrics/metrics.h"

namespace moonpool::metrics {

// # HELP and # TYPE.
void AppendHeader(absl::string_view name, absl::string_view help, absl::string_view type,
                  std::string* out);

// name{labels} value
void AppendSample(absl::string_view name, const Labels& labels, double value, std::string* out);

// name_bucket{labels,le="..."} per bound and +Inf, name_sum, name_count.
void AppendHistogram(absl::string_view name, const Labels& labels,
                     const Histogram::Snapshot& snapshot, std::string* out);

}  // namespace moonpool::metrics
