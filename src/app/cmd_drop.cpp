#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/resync/resync.hpp>
#include <pgbaton/snapshot/clone.hpp>
#include <pgbaton/state/lease.hpp>
#include <pgbaton/switchover/switchover.hpp>

#include <algorithm>
#include <iterator>

#include "cmd_switchover.hpp"
#include "command.hpp"
#include "known.hpp"
#include "rebuild_options.hpp"
#include "render.hpp"
#include "resync_shadow.hpp"

namespace pgbaton::app {

namespace {

// Nothing when there is no state to protect, or when the target cannot be reached: the source's part is done then.
std::optional<state::Lease> take_lease(const Context& context) {
  try {
    auto target = pg::open_control(context.target(), "drop");
    if (!state::Store(*target).installed()) return std::nullopt;
    return state::Lease::acquire(context.target(), context.names.name, context.options.take_over);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::failed) throw;
    log::warning("the target cannot be reached: {}", error.describe());
    return std::nullopt;
  }
}

// What finish would have made is not made by drop; silence would let it look complete.
void warn_of_deferred(const Context& context) {
  try {
    auto target = pg::open_control(context.target(), "drop");
    state::Store store(*target);
    if (!store.installed()) return;
    auto replica = store.load_replica(context.names.name);
    if (!replica || replica->replica_role || replica->phase < state::Phase::streaming) return;
    log::warning(
        "foreign keys, triggers and rules of the source wait for `finish` and are not made by `drop`; take them from "
        "the "
        "source with pg_dump --section=post-data");
  } catch (const Error& error) {
    log::debug("{}", error.describe());
  }
}

// Nothing was there: without --name another replica was meant. Who names one can repeat the command, and reads which
// there are, should the name be a slip.
void tell_of_others(const Context& context) {
  auto target = pg::open_control(context.target(), "drop");
  state::Store store(*target);
  const auto known = known_replicas(store);
  if (known.empty()) return;
  if (context.options.name.empty()) throw no_such_replica(context, store);
  log::warning("nothing was removed: there is no replica named {} on this target; {}", context.names.name, known);
}

}  // namespace

void print_removal(const Context& context, const RemovalResult& result) {
  const auto& report = result.report;
  if (!report.left.empty())
    print_error(Error(ErrorKind::failed, fmt::format("of replica {} could not be removed: {}", context.names.name,
                                                     fmt::join(report.left, "; ")))
                    .hint("Run the same command again when the cause is gone, or remove by hand what is left."));
  if (context.options.json) {
    std::vector<Entry> document{{"name", context.names.name}, {"removed", report.removed}, {"left", report.left}};
    if (result.complete_lsn) document.emplace_back("complete_up_to", to_string(result.complete_lsn));
    if (result.complete_lsn) document.emplace_back("not_carried", result.not_carried);
    if (result.complete_lsn) document.emplace_back("not_streamed", result.not_streamed);
    print(small_json(document));
    return;
  }
  std::string text;
  for (const auto& line : report.removed) text += fmt::format("removed  {}\n", line);
  for (const auto& line : report.left) text += fmt::format("LEFT     {}\n", line);
  if (result.complete_lsn)
    text += fmt::format("complete up to {}: the target has everything that the source committed before it\n",
                        to_string(result.complete_lsn));
  if (!result.not_carried.empty())
    text += fmt::format(
        "NOT THERE  {}: not part of the replica (came to the source later, or was detached on both sides)\n",
        fmt::join(result.not_carried, ", "));
  for (const auto& line : result.not_streamed) text += fmt::format("BUT  {}\n", line);
  if (text.empty())
    text = fmt::format("nothing of a replica named {} is on either side: nothing to remove\n", context.names.name);
  print(text);
}

namespace {

void add(snapshot::RemovalReport& report, snapshot::RemovalReport&& more) {
  std::ranges::move(more.removed, std::back_inserter(report.removed));
  std::ranges::move(more.left, std::back_inserter(report.left));
}

// First: once the state has gone nobody could tell any more that it may be taken off.
void remove_lost_fence(const Context& context, snapshot::RemovalReport& report) {
  const auto settings = load_switchover_section(context.options.config_file);
  if (switchover::undo_lost(context.source(), context.target(), context.names.name, settings, context.stop))
    report.removed.emplace_back("fence on the source, of a switchover that was lost before its flip");
}

snapshot::RemovalReport drop_both_sides(const Context& context) {
  snapshot::require_own_source(context.source(), context.target(), context.names.name);
  snapshot::RemovalReport report;
  remove_lost_fence(context, report);
  warn_of_deferred(context);
  add(report, remove_shadow(context));
  add(report, snapshot::remove_replica(context.source(), context.target(), context.names));
  add(report, rebuild::sweep(rebuild_place(context)));
  return report;
}

// What a killed resync has left needs the lease of its own, like everywhere.
snapshot::RemovalReport drop_target_side(const Context& context) {
  if (context.has_source()) snapshot::require_source_gone(context.source(), context.target(), context.names.name);
  warn_of_deferred(context);
  const auto shadow = resync::shadow_names(context.names);
  const auto lease = state::Lease::acquire(context.target(), shadow.name, context.options.take_over);
  auto report = snapshot::remove_from_target(context.target(), shadow);
  add(report, snapshot::remove_from_target(context.target(), context.names));
  return report;
}

}  // namespace

int run_drop(Context& context) {
  const bool source_is_gone = context.options.source_is_gone;
  if (!source_is_gone) context.source();  // a missing connection string is told before anything is connected
  auto lease = take_lease(context);
  auto report = source_is_gone ? drop_target_side(context) : drop_both_sides(context);
  if (report.removed.empty() && report.left.empty()) tell_of_others(context);
  RemovalResult result;
  result.report = report;
  print_removal(context, result);
  return report.left.empty() ? 0 : exit_code(ErrorKind::failed);
}

}  // namespace pgbaton::app
