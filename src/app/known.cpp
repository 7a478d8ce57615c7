#include "known.hpp"

#include <fmt/format.h>

namespace pgbaton::app {

std::string known_replicas(state::Store& store) {
  const auto names = store.replica_names();
  if (names.empty()) return {};
  return fmt::format("it knows: {} (use --name {})", fmt::join(names, ", "), names.front());
}

Error no_such_replica(const Context& context, state::Store& store) {
  const auto known = known_replicas(store);
  return Error(ErrorKind::usage, fmt::format("there is no replica named {} on this target{}{}", context.names.name,
                                             known.empty() ? "" : "; ", known))
      .side(Side::target)
      .hint(known.empty() ? "Make one with `pgbaton clone`." : "Name the replica that is meant with --name.");
}

}  // namespace pgbaton::app
