#include "identity_full.hpp"

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/source/lock_holders.hpp>

#include <algorithm>
#include <random>

namespace pgbaton::snapshot {

namespace {

// How long statements of the application can stand in the queue behind ours.
constexpr Milliseconds kLockWait{100};
// Between two tries; it grows, and differs by chance so as not to meet the same periodic reader each time.
constexpr Milliseconds kShortestPause{200}, kLongestPause{2000};
constexpr std::size_t kMostNamed = 3;

bool try_once(pg::Control& source, const std::string& table) {
  try {
    pqxx::work tx(source);
    tx.exec(fmt::format("set local lock_timeout = '{}ms'", kLockWait.count()));
    tx.exec("alter table " + table + " replica identity full");
    tx.commit();
    return true;
  } catch (const pqxx::sql_error& error) {
    constexpr std::string_view kLockNotAvailable = "55P03";
    if (pg::sqlstate_of(error) != kLockNotAvailable) throw;
    return false;
  }
}

std::string holders(pg::Control& source, catalog::Oid table) {
  std::string text;
  std::size_t named = 0;
  for (const auto& holder : source::load_lock_holders(source, table)) {
    if (named++ == kMostNamed) break;
    text += (text.empty() ? "" : "; ") + source::describe(holder);
  }
  return text;
}

Milliseconds next_pause(int tries) {
  static thread_local std::mt19937 random(std::random_device{}());
  const auto longest = std::min(kLongestPause, kShortestPause * (1 << std::min(tries, 4)));
  return Milliseconds(std::uniform_int_distribution<Milliseconds::rep>(longest.count() / 2, longest.count())(random));
}

[[noreturn]] void give_up(const catalog::Table& table, const std::string& held_by, Milliseconds patience) {
  throw Error(ErrorKind::timed_out,
              fmt::format("setting REPLICA IDENTITY FULL: no moment without other locks on the table in {}{}",
                          format_duration(patience), held_by.empty() ? "" : "; it was held by " + held_by))
      .side(Side::source)
      .table(table.name.quoted())
      .hint(
          "End what holds it or wait for it, then run the same command again; --slot-wait waits longer, and --keyless "
          "insert-only needs no lock.");
}

void set_one(pg::Control& source, const catalog::Table& table, Milliseconds patience, const std::stop_token& stop) {
  const auto doing = "setting REPLICA IDENTITY FULL on " + table.name.quoted();
  const auto deadline = Deadline::after(patience);
  std::string held_by;
  for (int tries = 0; !pg::control(Side::source, doing, [&] { return try_once(source, table.name.quoted()); });
       ++tries) {
    if (auto found = pg::control(Side::source, doing, [&] { return holders(source, table.oid); }); !found.empty())
      held_by = found;
    if (tries == 0) log::info("{}: waiting for {}", doing, held_by.empty() ? "others" : held_by);
    if (deadline.passed()) give_up(table, held_by, patience);
    if (!sleep_for(next_pause(tries), stop))
      throw Error(ErrorKind::failed, "interrupted while " + doing).hint("Run the same command again.");
  }
  log::warning("source: {} (keyless: full); it stays so", doing);
}

}  // namespace

void set_identity_full(pg::Control& source, const std::vector<catalog::Table>& tables, Milliseconds patience,
                       const std::stop_token& stop) {
  for (const auto& table : tables) {
    if (table.kind != 'r' || table.persistence != 'p' || table.identity != catalog::Identity::unusable) continue;
    set_one(source, table, patience, stop);
  }
}

}  // namespace pgbaton::snapshot
