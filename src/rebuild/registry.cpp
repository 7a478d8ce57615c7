#include "registry.hpp"

#include <fmt/format.h>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/state/store.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>

namespace pgbaton::rebuild {

namespace {

constexpr std::string_view kColumns =
    "id, live_database, replica, state, built, coalesce(database_oid, 0)::bigint as oid, "
    "database_oid is not null as begun, on_source, source, "
    "position_lsn, "
    "to_char(started_at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') as started_at, "
    "to_char(live_at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') as live_at, "
    "extract(epoch from clock_timestamp() - coalesce(position_at, live_at))::float8 as age";

Generation read(const pqxx::row& row) {
  Generation generation;
  generation.id = row["id"].as<std::int64_t>();
  generation.live = row["live_database"].c_str();
  generation.replica = row["replica"].c_str();
  generation.state = row["state"].c_str();
  generation.built = row["built"].as<bool>();
  generation.oid = row["oid"].as<std::uint32_t>();
  generation.begun = row["begun"].as<bool>();
  generation.on_source = row["on_source"].c_str();
  generation.source = row["source"].c_str();
  generation.position = require_lsn(row["position_lsn"].c_str(), "position_lsn");
  generation.started_at = row["started_at"].c_str();
  generation.live_at = row["live_at"].c_str();
  generation.age_seconds = row["age"].as<double>(-1);
  return generation;
}

void require_one(const pqxx::result& result, std::string_view doing) {
  if (result.affected_rows() == 1) return;
  throw Error(ErrorKind::held_elsewhere,
              fmt::format("{}: the registry does not know this generation any more: another process removed it", doing))
      .side(Side::target)
      .hint("The live database is as it was; run the same command again.");
}

std::string host_name() {
  std::array<char, 256> buffer{};
  if (gethostname(buffer.data(), buffer.size() - 1) != 0) return "unknown";
  return buffer.data();
}

std::string item(const pg::Endpoint& endpoint, std::string_view keyword) {
  for (const auto& [name, value] : pg::parse_conninfo(endpoint.conninfo, endpoint.side))
    if (name == keyword) return value;
  return {};
}

// For people: without anything secret.
std::string describe_source(const pg::Endpoint& source) {
  return pg::redact(source.conninfo);
}

}  // namespace

ReplicaNames Generation::names() const {
  ReplicaNames names(replica);
  names.base += "__g" + std::to_string(id);
  names.publication_inserts = names.base + "__ins";
  return names;
}

pg::Endpoint endpoint_of(const Place& place, const std::string& database) {
  auto endpoint = place.target;
  auto items = pg::parse_conninfo(endpoint.conninfo, endpoint.side);
  std::erase_if(items, [](const auto& entry) { return entry.first == "dbname"; });
  items.emplace_back("dbname", database);
  endpoint.conninfo = pg::build_conninfo(items);
  return endpoint;
}

std::string live_name(const Place& place) {
  if (auto name = item(place.target, "dbname"); !name.empty()) return name;
  auto connection = pg::open_control(place.target, "rebuild");
  return pg::control(Side::target, "asking for the live database's name", [&] {
    pqxx::nontransaction tx(*connection);
    return tx.exec1("select current_database()")[0].as<std::string>();
  });
}

Registry::Registry(const Place& place)
    : place_(place),
      live_(live_name(place)),
      connection_(pg::open_control(endpoint_of(place, place.maintenance_db), "rebuild")) {}

pqxx::result Registry::run(std::string_view doing, const std::string& sql) {
  return pg::control(Side::target, doing, [&] {
    pqxx::nontransaction tx(*connection_);
    return tx.exec(sql);
  });
}

bool Registry::installed() {
  return run("looking for the registry", "select to_regclass('pgbaton.generation') is not null")[0][0].as<bool>();
}

void Registry::install() {
  state::Store(*connection_).install();
}

bool Registry::try_lock() {
  const auto sql =
      fmt::format("select pg_try_advisory_lock(hashtextextended({}, 0))", quote_literal("pgbaton rebuild " + live_));
  return run("taking the rebuild's lock", sql)[0][0].as<bool>();
}

Error Registry::held_elsewhere() {
  const auto rows = run("looking for the lock's holder",
                        fmt::format("select writer_host, writer_pid, started_at::timestamptz(0)::text from "
                                    "pgbaton.generation where live_database = {} and state = 'building' "
                                    "order by id desc limit 1",
                                    quote_literal(live_)));
  const auto who = rows.empty() ? std::string("another process")
                                : fmt::format("host {}, pid {}, since {}", rows[0][0].c_str(), rows[0][1].c_str(),
                                              rows[0][2].c_str());
  return Error(ErrorKind::held_elsewhere, fmt::format("a rebuild of database {} is running: {}", live_, who))
      .side(Side::target)
      .hint("Let it end; this run has done nothing.");
}

bool Registry::locked() {
  const auto sql = fmt::format(
      "select exists (select from pg_catalog.pg_locks l join pg_catalog.pg_database d on d.oid = l.database where "
      "d.datname = current_database() and l.locktype = 'advisory' and l.objsubid = 1 and l.granted and "
      "(l.classid::bigint << 32) | l.objid::bigint = hashtextextended({}, 0))",
      quote_literal("pgbaton rebuild " + live_));
  return run("looking at the rebuild's lock", sql)[0][0].as<bool>();
}

void Registry::lock() {
  if (!try_lock()) throw held_elsewhere();
}

void Registry::keep_locked(std::int64_t id) {
  if (pg::revive(*connection_, endpoint_of(place_, place_.maintenance_db), "rebuild")) lock();
  const auto rows = run("reading the registry",
                        fmt::format("select 1 from pgbaton.generation where id = {} and state = 'building'", id));
  if (rows.empty())
    throw Error(ErrorKind::held_elsewhere, "another rebuild has removed the generation that this one was building")
        .side(Side::target)
        .hint("The live database is as the other left it; run the same command again.");
}

std::vector<Generation> Registry::load() {
  const auto rows = run("reading the registry",
                        fmt::format("select {} from pgbaton.generation where live_database = {} order by id desc",
                                    kColumns, quote_literal(live_)));
  std::vector<Generation> generations;
  for (const auto& row : rows) generations.push_back(read(row));
  return generations;
}

std::optional<Generation> Registry::live() {
  auto generations = load();
  const auto found = std::ranges::find(generations, "live", &Generation::state);
  return found == generations.end() ? std::nullopt : std::optional(std::move(*found));
}

std::uint32_t Registry::oid_of(const std::string& database) {
  const auto rows = run("looking for a database", fmt::format("select oid::bigint from pg_catalog.pg_database where "
                                                              "datname = {}",
                                                              quote_literal(database)));
  return rows.empty() ? 0 : rows[0][0].as<std::uint32_t>();
}

std::optional<Generation> Registry::settle_live() {
  auto known = live();
  const auto oid = oid_of(live_);
  if (known && known->oid == oid) return known;
  if (known) forget(*known);  // dropped, or replaced by hand
  if (oid == 0) return std::nullopt;
  for (;;) {
    run("recording the live database",
        fmt::format("insert into pgbaton.generation (live_database, replica, state, built, database_oid) values ({}, "
                    "{}, 'live', false, {})",
                    quote_literal(live_), quote_literal(place_.names.name), oid));
    const auto recorded = live();
    if (!exists(recorded->kept_name())) return recorded;  // what it will be called after the swap
    forget(*recorded);
  }
}

Generation Registry::previous(const std::optional<Generation>& live) {
  const auto rows =
      run("reading the registry",
          fmt::format("select {} from pgbaton.generation g join pg_catalog.pg_database d on d.oid = g.database_oid "
                      "where live_database = {} and state = 'kept' {} order by retired_at desc limit 1",
                      kColumns, quote_literal(live_), live ? fmt::format("and id < {}", live->id) : ""));
  if (!rows.empty()) return read(rows[0]);
  std::string newer;
  for (const auto& one : load())
    if (one.state == "kept" && live && one.id > live->id) newer = std::to_string(one.id);
  if (!newer.empty())
    throw Error(ErrorKind::usage,
                fmt::format("no generation of database {} earlier than {}, which is live, is kept; {} "
                            "is a newer one, and --rollback only goes back",
                            live_, live->id, newer))
        .side(Side::target)
        .hint("The way forward is a new generation: `pgbaton rebuild`.");
  throw Error(ErrorKind::usage, fmt::format("no earlier generation of database {} is kept", live_))
      .side(Side::target)
      .hint("`pgbaton rebuild --list` shows what there is; --keep says how many stay.");
}

Generation Registry::begin(const std::string& mode) {
  for (;;) {
    auto generation = insert(mode);
    if (!exists(generation.kept_name())) {
      PGBATON_FAILPOINT("rebuild_recorded");
      return generation;
    }
    log::info("database {} is not of this registry: it stays, and so does its number", generation.kept_name());
    forget(generation);
  }
}

Generation Registry::insert(const std::string& mode) {
  const auto rows = run(
      "recording a new generation",
      fmt::format("insert into pgbaton.generation (live_database, replica, state, built, source, mode, writer_host, "
                  "writer_pid) values ({}, {}, 'building', true, {}, {}, {}, {}) returning {}",
                  quote_literal(live_), quote_literal(place_.names.name), quote_literal(describe_source(place_.source)),
                  quote_literal(mode), quote_literal(host_name()), getpid(), kColumns));
  return read(rows[0]);
}

void Registry::creating(Generation& generation, bool begun) {
  require_one(run("recording that a database will be made",
                  fmt::format("update pgbaton.generation set database_oid = {} where id = {} and state = 'building'",
                              begun ? "0" : "null", generation.id)),
              "recording that a database will be made");
  generation.begun = begun;
}

void Registry::created(Generation& generation) {
  generation.oid = oid_of(generation.database());
  require_one(run("recording the new database",
                  fmt::format("update pgbaton.generation set database_oid = {} where id = {} and state = 'building'",
                              generation.oid, generation.id)),
              "recording the new database");
}

void Registry::store_position(const Generation& generation, Lsn position) {
  require_one(
      run("recording the position",
          fmt::format("update pgbaton.generation set position_lsn = '{}', position_at = clock_timestamp() where "
                      "id = {}",
                      to_string(position), generation.id)),
      "recording the position");
}

void Registry::store_on_source(Generation& generation, const std::string& base) {
  require_one(
      run("recording what is on the source", fmt::format("update pgbaton.generation set on_source = {} where id = {}",
                                                         quote_literal(base), generation.id)),
      "recording what is on the source");
  generation.on_source = base;
}

void Registry::forget(const Generation& generation) {
  run("forgetting a generation", fmt::format("delete from pgbaton.generation where id = {}", generation.id));
}

void Registry::change_live(pqxx::transaction_base& tx, std::int64_t outgoing, std::int64_t incoming) {
  if (outgoing != 0)
    require_one(tx.exec(fmt::format("update pgbaton.generation set state = 'kept', retired_at = clock_timestamp() "
                                    "where id = {} and state = 'live'",
                                    outgoing)),
                "retiring the live database");
  require_one(
      tx.exec(fmt::format("update pgbaton.generation set state = 'live', live_at = clock_timestamp() where id = "
                          "{} and state <> 'live'",
                          incoming)),
      "naming the new live database");
}

}  // namespace pgbaton::rebuild
