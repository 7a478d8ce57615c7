#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>

#include "parts.hpp"

namespace pgbaton::switchover {

void Steps::run(const std::string& name, bool in_pause, const std::function<std::string()>& work) {
  report_.failed_step = name;
  options_.course->begin(name);
  const auto started = Clock::now();
  auto note = work();
  PGBATON_FAILPOINT(("switchover_" + name).c_str());
  report_.failed_step.clear();
  options_.course->end(note);
  add({name, std::chrono::duration_cast<Milliseconds>(Clock::now() - started), in_pause, std::move(note)});
}

void Steps::add(Step step) {
  report_.steps.push_back(std::move(step));
  if (options_.on_step) options_.on_step(report_.steps.back());
}

state::Replica load_replica(state::Store& store, const Options& options) {
  auto replica = store.load_replica(options.names.name);
  if (!replica)
    throw Error(ErrorKind::usage, fmt::format("there is no replica named {} on this target", options.names.name))
        .side(Side::target)
        .hint("A switchover moves to a replica: make one with `pgbaton clone` first, or name the right one in --name.");
  if (replica->phase >= state::Phase::streaming) return *replica;
  throw Error(ErrorKind::usage, fmt::format("the copy of replica {} is not complete (phase {})", replica->name,
                                            to_string(replica->phase)))
      .side(Side::target)
      .hint("Run `pgbaton clone` again with the same options: it goes on where the last run ended.");
}

void require_possible(const std::vector<snapshot::Finding>& findings, bool reversed) {
  std::string text, remedy;
  for (const auto& finding : findings) {
    if (finding.severity != snapshot::Severity::blocker) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", finding.object, finding.message);
    if (remedy.empty()) remedy = finding.remedy;
  }
  if (text.empty()) return;
  if (!remedy.empty() && !remedy.ends_with('.')) remedy += '.';
  throw Error(ErrorKind::preflight, text)
      .hint(fmt::format("{}{}`pgbaton switchover{} --dry-run` lists every finding with what to do about it; nothing "
                        "was changed.",
                        remedy, remedy.empty() ? "" : " ", reversed ? " --rollback" : ""));
}

}  // namespace pgbaton::switchover
