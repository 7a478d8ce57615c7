#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/words.hpp>
#include <pgbaton/copy/finalize.hpp>
#include <pgbaton/snapshot/clone.hpp>
#include <pgbaton/state/writable.hpp>

#include "command.hpp"
#include "render.hpp"
#include "writer.hpp"

namespace pgbaton::app {

namespace {

// Whatever the replica is called: a source that has gone back in time has given out less than the target may hold.
void require_unbroken_history(const Context& context, pg::Control& target) {
  state::Store store(target);
  for (const auto& name : store.replica_names())
    if (const auto replica = store.load_replica(name)) require_unbroken(context, store, *replica);
}

}  // namespace

int run_sequences(Context& context) {
  snapshot::require_own_source(context.source(), context.target(), context.names.name);
  auto source = pg::open_control(context.source(), "sequences");
  auto target = pg::open_control(context.target(), "sequences");
  state::require_writable(*target);
  require_unbroken_history(context, *target);
  std::vector<QualifiedName> missing;
  std::vector<copy::SequenceAhead> ahead;
  const std::int64_t set = copy::copy_sequences(*source, *target, context.options.gap, &missing, &ahead);
  const auto kept = static_cast<std::int64_t>(ahead.size());
  const auto total = set + kept + static_cast<std::int64_t>(missing.size());
  if (set + kept == 0 && total > 0)
    throw Error(ErrorKind::usage,
                fmt::format("the source has {}, and none of that name is on the target", counted(total, "sequence")))
        .side(Side::target)
        .hint("Name the database that was cloned in --target.");
  for (const auto& name : missing) log::warning("sequence {} does not exist on the target", name.quoted());
  for (const auto& sequence : ahead)
    log::warning("sequence {} of the target stays at {}: set to {} it would give values again", sequence.name.quoted(),
                 sequence.value, sequence.wanted);
  print(context.options.json ? small_json({{"sequences_set", set}, {"gap", context.options.gap}, {"kept", kept}})
                             : fmt::format("{} of {} set, gap {}{}", set, counted(total, "sequence"),
                                           context.options.gap, kept == 0 ? "" : fmt::format("; {} further on", kept)));
  return 0;
}

}  // namespace pgbaton::app
