#include "cli/command.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "cli/values.h"
#include "common/clock.h"
#include "common/config/host_port.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::cli {

namespace {

std::vector<std::string> MastersOf(const std::string& value) {
  return absl::StrSplit(value, ',', absl::SkipEmpty());
}

absl::Status CheckMasters(const std::string& value) {
  const std::vector<std::string> masters = MastersOf(value);
  if (masters.empty()) return absl::InvalidArgumentError("the list of masters is empty");
  for (const std::string& master : masters) RETURN_IF_ERROR(ParseHostPort(master).status());
  return absl::OkStatus();
}

constexpr absl::Duration kNodesComeWithin = absl::Seconds(3);
constexpr absl::Duration kPoll = absl::Milliseconds(50);

}  // namespace

absl::StatusOr<v1::GetStatusResponse> Session::PoolWithNodes() const {
  MasterLink link = Link();
  const SteadyClock clock;
  const absl::Time until = clock.Now() + std::min(kNodesComeWithin, timeout);
  for (;;) {
    ASSIGN_OR_RETURN(v1::GetStatusResponse pool, link.GetStatus());
    if (pool.capacity_bytes() > 0) return pool;
    const bool is_young = DurationFromMs(pool.uptime_ms()) < kNodesComeWithin;
    if (!is_young || clock.Now() >= until) {
      return MakeError(
          absl::StatusCode::kUnavailable, ErrorReason::kNoNodes,
          absl::StrCat("no node is up, of ", pool.nodes_known(), " known"),
          {.hint = "start a moonpool-node with this --master; `moonpool nodes` shows them"});
    }
    absl::SleepFor(kPoll);
  }
}

absl::Status Session::CheckNamespace() const {
  return Link().ListObjects(name_space, "", "", 1).status();
}

void WarnOfUnknownNamespace(const Session& session) {
  const absl::Status known = session.CheckNamespace();
  if (ReasonOf(known) != ErrorReason::kNamespaceUnknown) return;
  Warn(known.message(), "waiting until a client opens it");
}

absl::StatusOr<std::unique_ptr<Client>> Session::Connect(ClientOptions options) const {
  options.masters = masters;
  options.name_space = name_space;
  options.fingerprint = fingerprint;
  options.timeout = timeout;
  // Somebody sits before it: that there is no master is said soon.
  options.wait_for_master = false;
  auto client = Client::Connect(std::move(options));
  if (client.ok() || client.status().code() != absl::StatusCode::kUnavailable) return client;
  return WithNoMasterHint(client.status());
}

CLI::App* AddCommand(CLI::App& app, const std::string& name, const std::string& summary,
                     const HelpEnd& end) {
  CLI::App* const command = app.add_subcommand(name, summary);
  std::string footer = "Examples:\n";
  for (absl::string_view line : absl::StrSplit(end.examples, '\n')) {
    absl::StrAppend(&footer, "  ", line, "\n");
  }
  if (!end.notes.empty()) absl::StrAppend(&footer, "\n", end.notes, "\n");
  command->footer(absl::StrCat(footer, "\n", kExitCodesHelp));
  return command;
}

CLI::App* AddPoolCommand(CLI::App& app, Session& session, const std::string& name,
                         const std::string& summary, const HelpEnd& end) {
  CLI::App* const command = AddCommand(app, name, summary, end);
  AddConnectionOptions(*command, session);
  return command;
}

void AddConnectionOptions(CLI::App& app, Session& session) {
  app.add_option_function<std::vector<std::string>>(
         "--master",
         [&session](const std::vector<std::string>& values) {
           session.masters.clear();
           for (const std::string& value : values) {
             for (std::string& master : MastersOf(value)) session.masters.push_back(master);
           }
         },
         "The masters: repeat, or use commas\n[$MOONPOOL_MASTER, or 127.0.0.1:7400]")
      ->allow_extra_args(false)  // else it swallows the words behind it
      ->check(Accepts(CheckMasters))
      ->type_name("HOST:PORT")
      ->group("Connection");
  AddNamespaceOption(app, "--namespace", &session.name_space, "The keys' namespace [default]")
      ->group("Connection");
  AddTextOption(app, "--fingerprint", &session.fingerprint,
                "Of the namespace: made with it if there is none, and\n"
                "refused if it has another")
      ->group("Connection");
  AddTimeoutOption(app, "--timeout", &session.timeout, "Of every call to the pool [10s]")
      ->group("Connection");
}

void AddJsonFlag(CLI::App& app, Session& session) {
  app.add_flag("--json", session.json, "Print JSON instead of text, errors too");
}

void AddJsonFileOption(CLI::App& app, Session& session, std::string* file) {
  app.add_option_function<std::vector<std::string>>(
         "--json",
         [&session, file](const std::vector<std::string>& values) {
           *file = values.empty() || values[0].empty() ? "-" : values[0];
           session.json = true;
         },
         "JSON into FILE, or to stdout instead of text")
      ->expected(0, 1)
      ->type_name("[FILE]");
}

}  // namespace moonpool::cli
