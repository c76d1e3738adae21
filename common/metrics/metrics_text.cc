#include "common/metrics/metrics_text.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace moonpool::metrics {
namespace {

// The shortest text that reads back as the same number.
std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  constexpr double kExactIntegersBelow = 1e15;
  if (value == std::floor(value) && std::abs(value) < kExactIntegersBelow) {
    return absl::StrFormat("%.0f", value);
  }
  double parsed = 0;
  const std::string rounded = absl::StrFormat("%.15g", value);
  if (absl::SimpleAtod(rounded, &parsed) && parsed == value) return rounded;
  return absl::StrFormat("%.17g", value);
}

}  // namespace

void AppendHeader(absl::string_view name, absl::string_view help, absl::string_view type,
                  std::string* out) {
  absl::StrAppend(out, "# HELP ", name, " ",
                  absl::StrReplaceAll(help, {{"\\", "\\\\"}, {"\n", "\\n"}}), "\n");
  absl::StrAppend(out, "# TYPE ", name, " ", type, "\n");
}

void AppendSample(absl::string_view name, const Labels& labels, double value, std::string* out) {
  absl::StrAppend(out, name);
  absl::string_view before = "{";
  for (const auto& [label, text] : labels) {
    absl::StrAppend(out, before, label, "=\"",
                    absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\n", "\\n"}, {"\"", "\\\""}}),
                    "\"");
    before = ",";
  }
  absl::StrAppend(out, labels.empty() ? "" : "}", " ", NumberText(value), "\n");
}

void AppendHistogram(absl::string_view name, const Labels& labels,
                     const Histogram::Snapshot& snapshot, std::string* out) {
  Labels bucket_labels = labels;
  std::string& bound_text = bucket_labels.emplace_back("le", "").second;
  const std::string bucket = absl::StrCat(name, "_bucket");
  for (const auto& [bound, count] : snapshot.cumulative) {
    bound_text = NumberText(bound);
    AppendSample(bucket, bucket_labels, static_cast<double>(count), out);
  }
  bound_text = "+Inf";
  AppendSample(bucket, bucket_labels, static_cast<double>(snapshot.count), out);
  AppendSample(absl::StrCat(name, "_sum"), labels, snapshot.sum, out);
  AppendSample(absl::StrCat(name, "_count"), labels, static_cast<double>(snapshot.count), out);
}

}  // namespace moonpool::metrics
