#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/snapshot/clone.hpp>
#include <pgbaton/state/lease.hpp>

#include <algorithm>
#include <iterator>

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

// Nothing was removed: was another replica meant?
void warn_of_another_name(const Context& context) {
  auto target = pg::open_control(context.target(), "drop");
  state::Store store(*target);
  warn_of_other_replicas(context, store);
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
    text += fmt::format("NOT THERE  {}: came to the source later, and the replica did not have {}\n",
                        fmt::join(result.not_carried, ", "), result.not_carried.size() == 1 ? "it" : "them");
  if (text.empty()) text = fmt::format("nothing of replica {} is left\n", context.names.name);
  print(text);
}

int run_drop(Context& context) {
  context.source();
  auto lease = take_lease(context);
  snapshot::require_own_source(context.source(), context.target(), context.names.name);
  warn_of_deferred(context);
  auto report = remove_shadow(context);
  auto rest = snapshot::remove_replica(context.source(), context.target(), context.names);
  std::ranges::move(rest.removed, std::back_inserter(report.removed));
  std::ranges::move(rest.left, std::back_inserter(report.left));
  auto generations = rebuild::sweep(rebuild_place(context));
  std::ranges::move(generations.removed, std::back_inserter(report.removed));
  std::ranges::move(generations.left, std::back_inserter(report.left));
  if (report.removed.empty() && report.left.empty()) warn_of_another_name(context);
  print_removal(context, {report, {}, {}});
  return report.left.empty() ? 0 : exit_code(ErrorKind::failed);
}

}  // namespace pgbaton::app
