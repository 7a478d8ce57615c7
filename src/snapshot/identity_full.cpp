#include "identity_full.hpp"

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/catalog/choice.hpp>
#include <pgbaton/source/lock_holders.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

namespace pgbaton::snapshot {

namespace {

using Json = nlohmann::ordered_json;

constexpr auto kRecorded = "identity_full";  // in pgbaton.replica.options

// How long statements of the application can stand in the queue behind ours.
constexpr Milliseconds kLockWait{100};
// Between two tries; it grows, and differs by chance so as not to meet the same periodic reader each time.
constexpr Milliseconds kShortestPause{200}, kLongestPause{2000};
constexpr std::size_t kMostNamed = 3;
// For setting it back, when a replica goes.
constexpr Milliseconds kPatience{10'000};

bool try_once(pg::Control& server, const std::string& table, const std::string& identity) {
  try {
    pqxx::work tx(server);
    tx.exec(fmt::format("set local lock_timeout = '{}ms'", kLockWait.count()));
    tx.exec(fmt::format("alter table {} replica identity {}", table, identity));
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

struct Alteration {
  Side side = Side::source;
  catalog::Oid oid = 0;
  std::string table, identity;  // as SQL
  std::string_view hint;
  std::string doing() const {
    return fmt::format("setting REPLICA IDENTITY {} on {}", identity == "full" ? "FULL" : identity, table);
  }
};

[[noreturn]] void give_up(const Alteration& wanted, const std::string& held_by, Milliseconds patience) {
  throw Error(ErrorKind::timed_out,
              fmt::format("{}: no moment without other locks on the table in {}{}", wanted.doing(),
                          format_duration(patience), held_by.empty() ? "" : "; it was held by " + held_by))
      .side(wanted.side)
      .table(wanted.table)
      .hint(wanted.hint);
}

void alter(pg::Control& server, const Alteration& wanted, Milliseconds patience, const std::stop_token& stop) {
  const auto doing = wanted.doing();
  const auto deadline = Deadline::after(patience);
  std::string held_by;
  for (int tries = 0; !pg::control(wanted.side, doing, [&] { return try_once(server, wanted.table, wanted.identity); });
       ++tries) {
    if (auto found = pg::control(wanted.side, doing, [&] { return holders(server, wanted.oid); }); !found.empty())
      held_by = found;
    if (tries == 0) log::info("{}: waiting for {}", doing, held_by.empty() ? "others" : held_by);
    if (deadline.passed()) give_up(wanted, held_by, patience);
    if (!sleep_for(next_pause(tries), stop))
      throw Error(ErrorKind::failed, "interrupted while " + doing).hint("Run the same command again.");
  }
}

std::string identity_index(pg::Control& source, catalog::Oid table) {
  return pg::control(Side::source, "reading an index's name", [&] {
    pqxx::nontransaction tx(source);
    const auto rows = tx.exec_params(
        "select c.relname from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid "
        "where i.indrelid = $1 and i.indisreplident",
        table);
    return rows.empty() ? std::string() : rows[0][0].as<std::string>();
  });
}

// An index that is gone acts like nothing.
std::string present_identity(pg::Control& source, const catalog::Table& table) {
  if (table.replica_identity == 'd') return "default";
  const auto index = table.replica_identity == 'i' ? identity_index(source, table.oid) : "";
  return index.empty() ? "nothing" : "using index " + quote_identifier(index);
}

Json recorded(const std::string& options) {
  const auto json = Json::parse(options, nullptr, false);
  return json.is_object() && json.contains(kRecorded) ? json[kRecorded] : Json::array();
}

// One table as it is now, with who publishes its UPDATEs or DELETEs, itself or as a partition.
pqxx::result look_up(pqxx::transaction_base& tx, bool where_recorded, const Json& entry) {
  const std::string query =
      "select c.oid::bigint, format('%I.%I', n.nspname, c.relname), c.relreplident, (select string_agg(distinct "
      "p.pubname, ', ') from pg_catalog.pg_publication p join pg_catalog.pg_publication_tables t using (pubname) "
      "where (p.pubupdate or p.pubdelete) and (t.schemaname, t.tablename) in (select s.nspname, r.relname from "
      "pg_catalog.pg_class r join pg_catalog.pg_namespace s on s.oid = r.relnamespace where r.oid = c.oid or r.oid in "
      "(select relid from pg_catalog.pg_partition_ancestors(c.oid)))) from pg_catalog.pg_class c "
      "join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.relkind = 'r' and ";
  if (where_recorded) return tx.exec_params(query + "c.oid = $1", entry.at("oid").get<catalog::Oid>());
  return tx.exec_params(query + "n.nspname = $1 and c.relname = $2", entry.at("schema").get<std::string>(),
                        entry.at("table").get<std::string>());
}

// "" when there was nothing to set back.
std::string put_back(pg::Control& server, Side side, const state::Replica& replica, const Json& entry) {
  // The way back of a switchover has carried the record on: its source is the former target.
  const bool where_recorded = side == Side::source && entry.at("system") == std::to_string(replica.source_system_id);
  const auto rows = pg::control(side, "looking at a table's REPLICA IDENTITY", [&] {
    pqxx::nontransaction tx(server);
    return look_up(tx, where_recorded, entry);
  });
  if (rows.empty() || rows[0][2].as<std::string>() != "f") return "";
  const auto table = rows[0][1].as<std::string>();
  if (!rows[0][3].is_null()) {
    log::warning("{}: {} keeps REPLICA IDENTITY FULL (keyless: full): publication {} has its UPDATEs, which would fail",
                 to_string(side), table, rows[0][3].as<std::string>());
    return "";
  }
  const auto before = entry.at("before").get<std::string>();
  alter(server,
        {side, rows[0][0].as<catalog::Oid>(), table, before,
         "End what holds it or wait for it, then run the same command again."},
        kPatience, {});
  return fmt::format("REPLICA IDENTITY FULL of {} on the {}, which is {} again", table, to_string(side), before);
}

}  // namespace

std::vector<ChosenIdentity> assume_identity_full(pg::Control& source, const catalog::TableFilter& filter,
                                                 std::vector<catalog::Table>& tables) {
  std::set<catalog::Oid> taken;
  for (const auto& table : catalog::apply_filter(tables, filter)) taken.insert(table.oid);
  std::vector<ChosenIdentity> chosen;
  for (auto& table : tables) {
    if (!taken.contains(table.oid) || table.kind != 'r' || table.persistence != 'p' ||
        table.identity != catalog::Identity::unusable)
      continue;
    auto before = present_identity(source, table);
    if (catalog::assume_full_identity(table)) chosen.push_back({table.oid, table.name, std::move(before)});
  }
  return chosen;
}

void set_identity_full(pg::Control& source, const std::vector<ChosenIdentity>& tables, Milliseconds patience,
                       const std::stop_token& stop) {
  for (const auto& table : tables) {
    const Alteration wanted{
        Side::source, table.oid, table.name.quoted(), "full",
        "End what holds it or wait for it, then run the same command again; --slot-wait waits longer, and --keyless "
        "insert-only needs no lock."};
    alter(source, wanted, patience, stop);
    log::warning("source: {} (keyless: full); when the replica goes it is {} again", wanted.doing(), table.before);
  }
}

std::string with_identities(const std::string& options, const std::vector<ChosenIdentity>& chosen,
                            const std::string& former) {
  auto json = Json::parse(options);
  Json list = Json::array();
  for (const auto& entry : recorded(former))
    if (std::ranges::find(chosen, entry.at("oid").get<catalog::Oid>(), &ChosenIdentity::oid) == chosen.end())
      list.push_back(entry);
  for (const auto& table : chosen)
    list.push_back({{"system", json.at("source_system_id")},
                    {"oid", table.oid},
                    {"schema", table.name.schema},
                    {"table", table.name.name},
                    {"before", table.before}});
  if (!list.empty()) json[kRecorded] = list;
  return json.dump();
}

void record_identities(pg::Control& target, const state::Replica& replica, const std::vector<ChosenIdentity>& chosen) {
  pg::control(Side::target, "recording identities", [&] {
    pqxx::work tx(target);
    const auto rows = tx.exec_params(
        "select options::text from pgbaton.replica where name = $1 and generation = $2 and epoch = $3 for update",
        replica.name, replica.generation, replica.epoch);
    if (rows.empty())
      throw Error(ErrorKind::held_elsewhere, "recording identities: another writer has taken over").side(Side::target);
    const auto options = rows[0][0].as<std::string>();
    tx.exec_params("update pgbaton.replica set options = $2::json where name = $1", replica.name,
                   with_identities(options, chosen, options));
    tx.commit();
  });
}

std::vector<std::string> put_identities_back(pg::Control& server, Side side, const state::Replica& replica) {
  const auto options = Json::parse(replica.options, nullptr, false);
  std::vector<std::string> lines;
  if (side == Side::target && (!options.is_object() || options.value("schema", "full") != "full")) return lines;
  for (const auto& entry : recorded(replica.options))
    if (auto line = put_back(server, side, replica, entry); !line.empty()) lines.push_back(std::move(line));
  return lines;
}

}  // namespace pgbaton::snapshot
