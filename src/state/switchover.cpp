#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/embedded_sql.hpp>
#include <pgbaton/state/switchover.hpp>

#include "fence.hpp"

namespace pgbaton::state {

std::int64_t begin_switchover(pg::Control& target, const Replica& replica, const std::string& host, int pid) {
  return pg::control(Side::target, "recording a switchover", [&] {
    pqxx::work tx(target);
    const auto row = tx.exec_params1(
        "insert into pgbaton.request (replica, kind, payload, state, taken_at) values ($1, 'switchover', $2::json, "
        "'taken', clock_timestamp()) returning id",
        replica.name, to_json({{"generation", replica.generation}, {"host", host}, {"pid", std::to_string(pid)}}));
    tx.commit();
    return row[0].as<std::int64_t>();
  });
}

bool undo_switchover(pg::Control& target, std::int64_t id, const std::string& reason) {
  return pg::control(Side::target, "giving a switchover up", [&] {
    pqxx::work tx(target);
    // Waits for a transaction that flips, if one is open.
    tx.exec_params(
        "update pgbaton.request set state = 'done', done_at = clock_timestamp(), result = $2::json "
        "where id = $1 and state = 'taken'",
        id, to_json({{"outcome", "undone"}, {"reason", reason}}));
    const auto rows = tx.exec_params(
        "select coalesce(result ->> 'outcome', 'undone') from pgbaton.request where id = $1 and state = 'done'", id);
    tx.commit();
    return !rows.empty() && rows[0][0].as<std::string>() == "undone";
  });
}

bool knows_attempt(pg::Control& target, const std::string& replica, const AttemptName& attempt) {
  return pg::control(Side::target, "looking for a switchover", [&] {
    pqxx::nontransaction tx(target);
    if (tx.exec1("select to_regclass('pgbaton.request') is null")[0].as<bool>()) return false;
    return !tx.exec_params(
                  "select from pgbaton.request where id = $1 and replica = $2 and kind = 'switchover' and "
                  "payload ->> 'generation' = $3",
                  attempt.id, replica, attempt.generation)
                .empty();
  });
}

namespace {

// Under the row of progress: a resync that takes tables out, or in, locks it before it looks for the direction.
void require_all_in_stream(pqxx::transaction_base& tx, const Replica& replica) {
  tx.exec_params("select from pgbaton.progress where replica = $1 and generation = $2 for update", replica.name,
                 replica.generation);
  const auto out = tx.exec_params(
      "select quote_ident(schema_name) || '.' || quote_ident(table_name) from pgbaton.table_state where replica = $1 "
      "and generation = $2 and (detached or phase not in ('done', 'skipped')) order by 1 limit 1",
      replica.name, replica.generation);
  if (out.empty()) return;
  throw Error(ErrorKind::preflight, "a table has left the stream meanwhile, to be copied again or for the first time")
      .side(Side::target)
      .table(out[0][0].as<std::string>())
      .hint("Let `pgbaton resync` end, or run it again if it was killed; then run the same command again.");
}

}  // namespace

void flip_switchover(pqxx::transaction_base& tx, std::int64_t id, const Replica& replica, Lsn barrier_lsn,
                     Lsn from_lsn) {
  require_all_in_stream(tx, replica);
  const auto flipped = tx.exec_params(
      "update pgbaton.request set state = 'done', done_at = clock_timestamp(), result = $2::json "
      "where id = $1 and state = 'taken'",
      id, to_json({{"outcome", "flipped"}, {"barrier_lsn", to_string(barrier_lsn)}}));
  if (flipped.affected_rows() != 1)
    throw Error(ErrorKind::failed, "the switchover was given up meanwhile (its deadline passed, or --undo)")
        .side(Side::target)
        .hint("Nothing is lost: run the same command again.");
  const auto mine = tx.exec_params(
      "update pgbaton.replica set direction = $4, epoch = epoch + 1, way_back = case when $5::pg_lsn <> '0/0' then "
      "(way_back::jsonb || jsonb_build_object('from_lsn', $5))::json end "
      "where name = $1 and generation = $2 and epoch = $3",
      replica.name, replica.generation, replica.epoch, std::string(kSwitched), to_string(from_lsn));
  if (mine.affected_rows() != 1)
    throw Error(ErrorKind::held_elsewhere, fmt::format("fenced: another writer of replica {} took over", replica.name))
        .side(Side::target);
}

std::optional<SwitchoverAttempt> load_switchover(pg::Control& target, const std::string& replica) {
  return pg::control(Side::target, "reading the last switchover", [&]() -> std::optional<SwitchoverAttempt> {
    pqxx::nontransaction tx(target);
    if (tx.exec1("select to_regclass('pgbaton.request') is null")[0].as<bool>()) return std::nullopt;
    const auto rows = tx.exec_params(
        "select id, state = 'taken', coalesce(result ->> 'outcome', '') = 'flipped', coalesce(result ->> "
        "'barrier_lsn', '0/0'), (payload ->> 'host') || ', pid ' || (payload ->> 'pid'), "
        "to_char(taken_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS \"UTC\"'), result ->> 'reason' "
        "from pgbaton.request where replica = $1 and kind = 'switchover' order by id desc limit 1",
        replica);
    if (rows.empty()) return std::nullopt;
    return SwitchoverAttempt{rows[0][0].as<std::int64_t>(),  rows[0][1].as<bool>(),
                             rows[0][2].as<bool>(),          require_lsn(rows[0][3].c_str(), "the barrier"),
                             rows[0][4].as<std::string>(""), rows[0][5].as<std::string>(""),
                             rows[0][6].as<std::string>("")};
  });
}

void record_readers(pg::Control& target, const Replica& replica, bool on_target) {
  pg::control(Side::target, "recording where readers are", [&] {
    pqxx::work tx(target);
    tx.exec_params("delete from pgbaton.request where replica = $1 and kind = 'readers'", replica.name);
    if (on_target)
      tx.exec_params(
          "insert into pgbaton.request (replica, kind, payload, state, done_at) values ($1, 'readers', $2::json, "
          "'done', clock_timestamp())",
          replica.name, to_json({{"generation", replica.generation}}));
    tx.commit();
  });
}

bool readers_on_target(pg::Control& target, const Replica& replica) {
  return pg::control(Side::target, "looking for readers", [&] {
    pqxx::nontransaction tx(target);
    return !tx.exec_params(
                  "select from pgbaton.request where replica = $1 and kind = 'readers' and payload ->> 'generation' = "
                  "$2",
                  replica.name, replica.generation)
                .empty();
  });
}

std::string switchover_lock(const std::string& replica) {
  return "pgbaton switchover " + replica;
}

// Held no longer than the statement takes.
bool switchover_runs(pg::Control& target, const std::string& replica) {
  return pg::control(Side::target, "looking for a switchover", [&] {
    pqxx::nontransaction tx(target);
    return !tx.exec_params1("select pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended($1, 0))",
                            switchover_lock(replica))[0]
                .as<bool>();
  });
}

bool wanted_by_switchover(pg::Control& target, const std::string& replica) {
  return pg::control(Side::target, "looking for a switchover", [&] {
    pqxx::nontransaction tx(target);
    return !tx.exec_params(
                  "select from pgbaton.request where replica = $1 and ((kind = 'switchover' and state = "
                  "'taken') or (kind = 'stop' and payload ->> 'reason' = $2)) limit 1",
                  replica, std::string(kStopForSwitchover))
                .empty();
  });
}

std::optional<WayBack> load_way_back(pg::Control& target, const std::string& replica) {
  return pg::control(Side::target, "reading the way back", [&]() -> std::optional<WayBack> {
    pqxx::nontransaction tx(target);
    if (tx.exec1("select to_regclass('pgbaton.replica') is null")[0].as<bool>()) return std::nullopt;
    const auto rows = tx.exec_params(
        "select w ->> 'generation', w ->> 'slot', w ->> 'publication', w ->> 'publication_inserts', "
        "coalesce(w ->> 'from_lsn', '0/0'), w::text from (select to_jsonb(r) -> 'way_back' as w from pgbaton.replica r "
        "where name = $1) as found where jsonb_typeof(w) = 'object'",
        replica);
    if (rows.empty()) return std::nullopt;
    const auto row = rows[0];
    return WayBack{row[0].as<std::string>(),
                   row[1].as<std::string>(),
                   row[2].as<std::string>(),
                   row[3].as<std::string>(),
                   require_lsn(row[4].c_str(), "pgbaton.replica.way_back.from_lsn"),
                   row[5].as<std::string>()};
  });
}

void store_way_back(pg::Control& target, const Replica& replica, const std::string& json) {
  constexpr std::string_view kDoing = "recording the way back";
  pg::control(Side::target, kDoing, [&] {
    pqxx::work tx(target);
    require_one(tx.exec_params("update pgbaton.replica set way_back = nullif($4, '')::json where name = $1 and "
                               "generation = $2 and epoch = $3",
                               replica.name, replica.generation, replica.epoch, json),
                replica, kDoing);
    tx.commit();
  });
}

void establish_way_back(pg::Control& other, const std::string& replica, const WayBack& way_back) {
  pg::control(Side::source, "recording the replica that streams back", [&] {
    pqxx::work tx(other);
    tx.exec("lock table pgbaton.replica in share row exclusive mode");
    if (!tx.exec_params("select from pgbaton.replica where name = $1 and generation = $2", replica, way_back.generation)
             .empty())
      return;
    // Its row first: without it nobody needs what else there is of it.
    const auto former = tx.exec_params("delete from pgbaton.replica where name = $1 returning epoch", replica);
    const auto epoch = former.empty() ? 1 : former[0][0].as<std::int64_t>() + 1;
    for (const char* table : {"progress", "copy_part", "tombstone", "tombstone_hold", "table_state", "doubt"})
      tx.exec_params(fmt::format("delete from pgbaton.{} where replica = $1", table), replica);
    tx.exec_params(std::string(sql::establish_way_back), replica, way_back.json, epoch);
    tx.commit();
  });
}

void keep_way_back_alone(pg::Control& target, const std::string& replica) {
  pg::control(Side::target, "forgetting what was switched over", [&] {
    pqxx::work tx(target);
    tx.exec_params(
        "update pgbaton.replica set phase = 'creating', slot = '', publication = '', publication_inserts = "
        "'' where name = $1 and direction = $2",
        replica, std::string(kSwitched));
    for (const char* table : {"progress", "copy_part", "tombstone", "tombstone_hold", "table_state", "doubt"})
      tx.exec_params(fmt::format("delete from pgbaton.{} where replica = $1", table), replica);
    tx.commit();
  });
}

}  // namespace pgbaton::state
