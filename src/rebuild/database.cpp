#include "database.hpp"

#include <fmt/format.h>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/copy/database.hpp>
#include <pgbaton/embedded_sql.hpp>
#include <pgbaton/state/store.hpp>

#include <algorithm>
#include <thread>

namespace pgbaton::rebuild {

namespace {

constexpr Milliseconds kPoll{50};
constexpr std::string_view kInUse = "55006", kDuplicateDatabase = "42P04";

struct Made {
  std::string encoding, collate, ctype, provider, locale, icu_rules, owner, tablespace;
};

Made read_made(Side side, pg::Control& connection, const std::string& database) {
  return pg::control(side, "reading how the database was made", [&] {
    pqxx::work tx(connection);
    const auto row = tx.exec_params1(std::string(sql::rebuild_locale), database);
    return Made{row[0].c_str(), row[1].c_str(), row[2].c_str(), row[3].c_str(),
                row[4].c_str(), row[5].c_str(), row[6].c_str(), row[7].c_str()};
  });
}

Made model(Registry& registry, const std::optional<Generation>& live) {
  if (live) {
    auto made = read_made(Side::target, registry.connection(), live->live);
    // It is taken from the template then; to name it would need the right CREATE on it, which nobody has on pg_default.
    if (made.tablespace == read_made(Side::target, registry.connection(), "template0").tablespace) made.tablespace = "";
    return made;
  }
  auto source = pg::open_control(registry.place().source, "rebuild");
  auto name = pg::control(Side::source, "asking for the database's name", [&] {
    pqxx::nontransaction tx(*source);
    return tx.exec1("select current_database()")[0].as<std::string>();
  });
  auto made = read_made(Side::source, *source, name);
  made.owner = made.tablespace = "";
  return made;
}

// Without a provider, which majors below 15 do not have, template0's own would be taken.
std::string create_statement(const std::string& name, const Made& made, int server_version) {
  auto sql =
      fmt::format("create database {} template template0 encoding {} lc_collate {} lc_ctype {}", quote_identifier(name),
                  quote_literal(made.encoding), quote_literal(made.collate), quote_literal(made.ctype));
  if (made.provider == "libc" && server_version >= 150000) sql += " locale_provider libc";
  if (made.provider == "icu") sql += " locale_provider icu icu_locale " + quote_literal(made.locale);
  if (made.provider == "builtin") sql += " locale_provider builtin builtin_locale " + quote_literal(made.locale);
  if (!made.icu_rules.empty()) sql += " icu_rules " + quote_literal(made.icu_rules);
  if (!made.owner.empty()) sql += " owner " + quote_identifier(made.owner);
  if (!made.tablespace.empty()) sql += " tablespace " + quote_identifier(made.tablespace);
  return sql;
}

void end_sessions(Registry& registry, const std::string& database) {
  registry.run("ending the sessions of a database", end_sessions_query(quote_literal(database)));
}

// A drop that was interrupted leaves a database that can only be dropped.
bool connectable(Registry& registry, const std::string& database) {
  return !registry
              .run("looking at a database",
                   fmt::format("select 1 from pg_catalog.pg_database where datname = {} and datconnlimit <> -2",
                               quote_literal(database)))
              .empty();
}

void append(snapshot::RemovalReport& to, snapshot::RemovalReport&& from) {
  for (auto& line : from.removed) to.removed.push_back(std::move(line));
  for (auto& line : from.left) to.left.push_back(std::move(line));
}

}  // namespace

void create_database(Registry& registry, Generation& generation, const std::optional<Generation>& live) {
  const auto name = generation.database();
  const auto statement = create_statement(name, model(registry, live), registry.connection().server_version());
  registry.creating(generation, true);
  try {
    registry.run("making database " + name, statement);
  } catch (const Error& error) {
    if (error.sqlstate() == kDuplicateDatabase) registry.creating(generation, false);  // somebody else's, made just now
    throw;
  }
  PGBATON_FAILPOINT("rebuild_database_made");
  registry.created(generation);
  PGBATON_FAILPOINT("rebuild_database_recorded");
}

// Whose sessions the role may not see, of these backend_type is NULL.
std::string sessions_condition(const std::string& databases) {
  return fmt::format(
      "datname in ({}) and pid <> pg_backend_pid() and usesysid is not null and coalesce(backend_type, '') <> "
      "'autovacuum worker'",
      databases);
}

// Only a superuser may end a superuser's session; to try it is an error, as it is without the right to signal.
std::string may_be_ended_condition() {
  return "((select rolsuper from pg_catalog.pg_roles where rolname = current_user) or (not exists (select from "
         "pg_catalog.pg_roles r where r.oid = a.usesysid and r.rolsuper) and (pg_has_role(a.usesysid, 'USAGE') or "
         "pg_has_role('pg_signal_backend', 'USAGE'))))";
}

std::string end_sessions_query(const std::string& databases) {
  return fmt::format(
      "select count(*) filter (where pg_terminate_backend(pid)) from pg_catalog.pg_stat_activity a where {} and "
      "coalesce(backend_type, 'client backend') = 'client backend' and {}",
      sessions_condition(databases), may_be_ended_condition());
}

namespace {

// DROP DATABASE has one SQLSTATE for sessions, which are told to end, and for these, which no waiting ends.
// (Slots that nobody uses go with the database.)
void require_droppable(Registry& registry, const std::string& name) {
  const auto rows = registry.run(
      "looking for what holds a database",
      fmt::format("select 'subscription ' || quote_ident(s.subname) from pg_catalog.pg_subscription s join "
                  "pg_catalog.pg_database d on d.oid = s.subdbid where d.datname = {0} union all "
                  "select 'prepared transaction ' || quote_literal(gid) from pg_catalog.pg_prepared_xacts where "
                  "database = {0} union all select 'replication slot ' || slot_name from "
                  "pg_catalog.pg_replication_slots where database = {0} and active",
                  quote_literal(name)));
  if (rows.empty()) return;
  throw Error(ErrorKind::failed, fmt::format("database {} cannot be dropped: it has {}", quote_identifier(name),
                                             rows[0][0].as<std::string>()))
      .side(Side::target)
      .hint("End what it is used for, or drop the database yourself; the next run does it then.");
}

}  // namespace

void drop_database(Registry& registry, const std::string& name, Milliseconds patience) {
  const auto deadline = Deadline::after(std::min(patience, kSessionsPatience));
  for (;;) {
    try {
      end_sessions(registry, name);
      registry.run("bounding the next statement", fmt::format("set statement_timeout = {}", patience.count()));
      registry.run("dropping database " + name, "drop database if exists " + quote_identifier(name));
      registry.run("unbounding the next statement", "set statement_timeout = 0");
      return;
    } catch (const Error& error) {
      if (error.action() != Action::retry || error.sqlstate() == kInUse)
        registry.run("unbounding the next statement", "set statement_timeout = 0");
      if (error.sqlstate() != kInUse || deadline.passed()) throw;
      require_droppable(registry, name);
    }
    std::this_thread::sleep_for(kPoll);
  }
}

void carry_over(Registry& registry, const std::string& live, const std::string& database) {
  const auto statements = pg::control(Side::target, "reading what the live database carries", [&] {
    pqxx::work tx(registry.connection());
    return tx.exec_params(std::string(sql::rebuild_carry_over), live, database);
  });
  for (const auto& row : statements) registry.run("carrying over from the live database", row[0].as<std::string>());
  copy::copy_database_properties(endpoint_of(registry.place(), live), endpoint_of(registry.place(), database),
                                 {.settings = true, .comment = false, .privileges = false});
}

snapshot::RemovalReport release_replica(Registry& registry, const Generation& generation) {
  const auto target = endpoint_of(registry.place(), generation.database());
  const auto names = generation.built ? generation.names() : registry.place().names;
  {
    auto connection = pg::open_control(target, "rebuild");
    if (!state::Store(*connection).load_replica(names.name)) return {};
  }
  return snapshot::remove_replica(registry.place().source, target, names);
}

snapshot::RemovalReport remove_generation(Registry& registry, const Generation& generation, Milliseconds patience) {
  snapshot::RemovalReport report;
  const auto name = generation.kept_name();
  const auto oid = registry.oid_of(name);
  if (oid != 0 && generation.oid != 0 && oid != generation.oid) {
    report.left.push_back(fmt::format("database {}: another one than the rebuild made; it stays", name));
  } else if (oid != 0 && generation.begun) {
    end_sessions(registry, name);
    if (generation.oid != 0 && connectable(registry, name)) report = release_replica(registry, generation);
    if (!report.left.empty()) return report;
    drop_database(registry, name, patience);
    PGBATON_FAILPOINT("rebuild_database_dropped");
    report.removed.push_back(fmt::format("database {} on the target", name));
  }
  registry.forget(generation);
  return report;
}

snapshot::RemovalReport sweep_leftovers(Registry& registry) {
  snapshot::RemovalReport report;
  for (auto& generation : registry.load()) {
    try {
      if (generation.state == "building") {
        append(report, remove_generation(registry, generation));
      } else if (generation.state == "kept" && registry.oid_of(generation.kept_name()) != generation.oid) {
        registry.forget(generation);  // dropped or renamed by hand
      } else if (generation.state == "kept" && !generation.on_source.empty()) {
        append(report, release_replica(registry, generation));
        if (report.left.empty()) registry.store_on_source(generation, "");
      }
    } catch (const Error& error) {
      report.left.push_back(fmt::format("generation {}: {}", generation.kept_name(), error.describe()));
    }
  }
  return report;
}

std::vector<std::string> prune(Registry& registry, int keep, std::vector<std::string>& left) {
  const auto rows =
      registry.run("reading the registry",
                   fmt::format("select id from pgbaton.generation where live_database = {} and state = 'kept' "
                               "and built order by retired_at desc offset {}",
                               quote_literal(registry.name()), keep));
  std::vector<std::string> dropped;
  for (const auto& generation : registry.load()) {
    for (const auto& row : rows) {
      if (row[0].as<std::int64_t>() != generation.id) continue;
      try {
        const auto report = remove_generation(registry, generation);
        left.insert(left.end(), report.left.begin(), report.left.end());
        if (report.left.empty()) dropped.push_back(generation.kept_name());
      } catch (const Error& error) {  // the others go all the same
        left.push_back(fmt::format("generation {}: {}", generation.kept_name(), error.describe()));
      }
    }
  }
  return dropped;
}

}  // namespace pgbaton::rebuild
