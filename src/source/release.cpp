// A stopped writer (SIGSTOP, a host that hangs) keeps its walsender until wal_sender_timeout, a minute by default;
// whoever takes its place need not wait for that.
#include <fmt/format.h>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/source/slot.hpp>

#include <thread>

namespace pgbaton::source {

namespace {
constexpr Milliseconds kReleaseTimeout{10'000};
}

bool release_slot(pg::Control& source, const std::string& name) {
  const auto deadline = Deadline::after(kReleaseTimeout);
  for (bool seen = false;; seen = true) {
    const auto slot = load_slot(source, name);
    if (!slot || !slot->active) return seen;
    if (deadline.passed()) return seen;  // the reader will say who has it
    pg::control(Side::source, "ending the reader of slot " + quote_identifier(name), [&] {
      pqxx::nontransaction transaction(source);
      transaction.exec_params1("select pg_terminate_backend($1)", slot->active_pid);
    });
    if (!seen) log::info("ended backend {}, which read slot {} on the source", slot->active_pid, name);
    std::this_thread::sleep_for(Milliseconds(20));
  }
}

void end_slot_creators(pg::Control& source, const std::string& replica_name) {
  const auto deadline = Deadline::after(kReleaseTimeout);
  pg::control(Side::source, "ending sessions that create slots", [&] {
    pqxx::nontransaction transaction(source);
    while (!deadline.passed()) {
      const auto ended = transaction.exec_params(
          "select pid, pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'walsender' and "
          "datname = current_database() and application_name = $1",
          fmt::format("pgbaton/{}/slot", replica_name));
      if (ended.empty()) return;
      log::debug("ended {} sessions on the source that were creating slots", ended.size());
      std::this_thread::sleep_for(Milliseconds(20));
    }
  });
}

}  // namespace pgbaton::source
