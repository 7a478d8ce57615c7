#include <fmt/format.h>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/source/open_reader.hpp>
#include <pgbaton/source/slot.hpp>

#include <thread>

namespace pgbaton::source {
namespace {
constexpr Milliseconds kReleaseTimeout{10'000};
}

std::string read_slot_name(const std::string& slot) {
  return slot + "__read";
}

bool end_read_session(pg::Control& source, const std::string& slot, const std::string& replica_name) {
  const auto name = read_slot_name(slot);
  const auto deadline = Deadline::after(kReleaseTimeout);
  return pg::control(Side::source, "looking for slot " + quote_identifier(name), [&] {
    pqxx::nontransaction transaction(source);
    for (bool seen = false;; seen = true) {
      // The session of a slot may be gone a moment before its slot.
      const auto found = transaction.exec_params(
          "select s.temporary and s.database = current_database(), coalesce(a.application_name = $2, true), "
          "coalesce(s.active_pid, 0) from "
          "pg_replication_slots s left join pg_stat_activity a on a.pid = s.active_pid where s.slot_name = $1",
          name, fmt::format("pgbaton/{}/read", replica_name));
      if (found.empty()) return seen;
      if (!found[0][0].as<bool>() || !found[0][1].as<bool>()) {
        throw Error(ErrorKind::preflight,
                    fmt::format("slot {} exists on the source and is not of this replica", quote_identifier(name)))
            .side(Side::source)
            .hint(fmt::format("If nobody uses it: SELECT pg_drop_replication_slot({}). Until then give --reader "
                              "walsender.",
                              quote_literal(name)));
      }
      if (deadline.passed()) {
        throw Error(ErrorKind::failed,
                    fmt::format("backend {} does not let go of slot {}", found[0][2].as<int>(), quote_identifier(name)))
            .side(Side::source)
            .action(Action::retry);
      }
      if (!seen) log::info("ending backend {} on the source, which an earlier run left behind", found[0][2].as<int>());
      if (found[0][2].as<int>() != 0)
        transaction.exec_params1("select pg_terminate_backend($1)", found[0][2].as<int>());
      std::this_thread::sleep_for(Milliseconds(20));
    }
  });
}

}  // namespace pgbaton::source
