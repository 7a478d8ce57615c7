// What stands in the way, looked for on both sides, and nothing changed on either.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/size.hpp>
#include <pgbaton/catalog/activity.hpp>
#include <pgbaton/catalog/event_triggers.hpp>
#include <pgbaton/catalog/member.hpp>
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/copy/deferrable.hpp>
#include <pgbaton/copy/sequences.hpp>
#include <pgbaton/copy/shell.hpp>
#include <pgbaton/snapshot/recheck.hpp>
#include <pgbaton/snapshot/unlike.hpp>
#include <pgbaton/source/history.hpp>
#include <pgbaton/source/slot.hpp>
#include <pgbaton/state/doubt.hpp>
#include <pgbaton/switchover_embedded_sql.hpp>

#include <algorithm>
#include <iterator>
#include <map>

#include "parts.hpp"
#include "watchdog.hpp"

namespace pgbaton::switchover {

namespace {

using snapshot::Finding;
using snapshot::Severity;

class Look {
 public:
  Look(const Options& options, pg::Control& source, pg::Control& target, const std::stop_token& stop)
      : options_(options),
        source_(source),
        target_(target),
        store_(target),
        replica_(load_replica(store_, options)),
        stop_(stop) {}

  std::vector<Finding> run() {
    look_at_history();
    look_at_changes();
    look_at_replica();
    append(look_left_behind(options_, source_, target_, replica_, stop_));
    look_at_lag();
    look_at_source();
    look_at_event_triggers(source_, Side::source);
    look_at_target();
    look_at_event_triggers(target_, Side::target);
    look_at_pooler();
    look_at_readers();
    look_at_hooks();
    look_at_extensions();
    look_at_members();
    for (auto& one : snapshot::definitions_unlike(source_, target_, replica_, store_.load_tables(replica_)))
      add(Severity::warning, "target.definition", std::move(one.object), std::move(one.message), std::move(one.remedy));
    look_at_sequences();
    append(look_at_way_back(options_, source_, target_, store_.load_tables(replica_)));
    std::ranges::stable_sort(findings_, {}, &Finding::severity);
    return std::move(findings_);
  }

 private:
  void add(Severity severity, std::string id, std::string object, std::string message, std::string remedy = {}) {
    findings_.push_back({std::move(id), severity, std::move(object), std::move(message), std::move(remedy)});
  }

  void append(std::vector<Finding> found) { std::ranges::move(found, std::back_inserter(findings_)); }

  // An error that another module throws, as a finding.
  template <typename Work>
  void attempt(const std::string& id, const std::string& object, Work&& work) {
    try {
      work();
    } catch (const Error& error) {
      add(Severity::blocker, id, object, error.describe(), error.hint());
    }
  }

  // A writer that runs looks itself, and moves the slot while we would compare.
  void look_at_history() {
    if (state::Lease::held(target_, replica_.name)) return;
    attempt("source.history", "source", [&] {
      source::require_history(
          source_, options_.stream.source,
          source::expected_history(replica_, store_.load_progress(replica_), store_.load_tables(replica_)));
    });
  }

  // What DDL has put in doubt by now; a stream does not tell.
  void look_at_changes() {
    attempt("source.catalogs", "source", [&] {
      auto tables = store_.load_tables(replica_);
      snapshot::ChangeReport().look(
          source_, [&]() -> pg::Control& { return target_; }, replica_, tables);
    });
  }

  void look_at_replica() {
    if (replica_.phase != state::Phase::ready)
      add(Severity::blocker, "replica.ready", "replica " + replica_.name,
          fmt::format("is not ready (phase {})", to_string(replica_.phase)), "pgbaton follow --until caught-up");
    for (const auto& doubt : state::load_doubts(target_, replica_.name))
      if (doubt.kind != state::DoubtKind::outside)
        add(doubt.kind == state::DoubtKind::unproven && may_stay_behind(options_, doubt.table) ? Severity::warning
                                                                                               : Severity::blocker,
            "table.doubt", doubt.table.quoted(), doubt.reason, doubt.remedy);
    for (const auto& table : store_.load_tables(replica_))
      if (table.detached)
        add(Severity::blocker, "table.resync", table.name.quoted(), "is being copied again",
            "Let `pgbaton resync` end.");
    attempt("target.constraints", "target", [&] { copy::require_deferrable_constraints(target_, replica_.name); });
    // What is made in the pause would act on what the stream applies, should the switchover be given up.
    if (!replica_.replica_role)
      add(Severity::blocker, "target.deferred", "target",
          "foreign keys, triggers and rules wait for the end, because the role may not set session_replication_role",
          "GRANT SET ON PARAMETER session_replication_role (15 and newer) and clone again; or stop the application and "
          "use `pgbaton finish`.");
  }

  // The same of the PgBouncer that only readers use, and of commands.
  void look_at_readers() {
    const auto& settings = options_.settings;
    if (options_.readers_only && !state::Lease::held(target_, replica_.name))
      add(Severity::blocker, "readers.stream", "replica " + replica_.name,
          "nobody streams: what readers see on the target would grow old", "Start `pgbaton follow` first.");
    if (settings.pgbouncer_readers.empty()) return;
    if (settings.pgbouncer_readers_conffile.empty() || settings.pgbouncer_readers_conffile_back.empty())
      add(Severity::blocker, "pgbouncer.readers", "pgbouncer-readers", "it is not said where it leads, there and back",
          "Set pgbouncer-readers-conffile and pgbouncer-readers-conffile-back.");
    if (settings.pgbouncer_readers == settings.pgbouncer)
      add(Severity::blocker, "pgbouncer.readers", "pgbouncer-readers", "is the one that writers use, too",
          "Readers need a PgBouncer of their own; or send them by hook-readers.");
    attempt("pgbouncer.readers", "PgBouncer of the readers",
            [&] { pgbouncer_command(settings.pgbouncer_readers, "SHOW VERSION"); });
  }

  void look_at_hooks() {
    const auto& settings = options_.settings;
    std::map<std::string, std::string> commands;
    for (const auto& [step, command] : settings.hooks) commands["hooks: " + step] = command;
    commands["hook-before"] = settings.hook_before;
    commands["hook-fenced"] = settings.hook_fenced;
    commands["hook-flip"] = settings.hook_flip;
    commands["hook-after"] = settings.hook_after;
    commands["hook-readers"] = settings.hook_readers;
    for (const auto& [name, command] : commands)
      if (const auto why = command.empty() ? "" : copy::shell_complaint(command); !why.empty())
        add(Severity::blocker, "hook", name, why,
            "Give what sh can run as the user of this process: an executable file (chmod +x) by its full path.");
  }

  // Told before anybody is fenced, not at the flip.
  void look_at_pooler() {
    const auto& settings = options_.settings;
    if (settings.pgbouncer.empty()) return;
    attempt("pgbouncer", "PgBouncer", [&] {
      pgbouncer_command(settings.pgbouncer, "SHOW VERSION");
      if (settings.pgbouncer_pause.empty()) return;
      const auto names = pgbouncer_databases(settings.pgbouncer);
      if (std::ranges::find(names, settings.pgbouncer_pause) == names.end())
        add(Severity::blocker, "pgbouncer", settings.pgbouncer_pause, "PgBouncer has no database of this name",
            "Look at pgbouncer-pause in section switchover, and at SHOW DATABASES in the admin console.");
    });
  }

  void look_at_lag() {
    const auto applied = store_.load_progress(replica_).applied_lsn;
    const auto now = catalog::current_flush_lsn(source_);
    const auto behind = now > applied ? now.value - applied.value : 0;
    if (behind <= options_.settings.max_lag) return;
    const bool running = state::Lease::held(target_, replica_.name);
    add(Severity::blocker, "replica.lag", "replica " + replica_.name,
        fmt::format("the target is {} of WAL behind, more than max-lag ({})", format_size(behind),
                    format_size(options_.settings.max_lag)),
        running ? "Wait until it has caught up: pgbaton wait --for caught-up" : "pgbaton follow --until caught-up");
  }

  void look_at_source() {
    pg::control(Side::source, "looking for what stands in the way", [&] {
      pqxx::read_transaction tx(source_);
      for (auto row : tx.exec(std::string(sql::preflight)))
        add(row[0].as<std::string>() == "blocker" ? Severity::blocker : Severity::warning, row[1].as<std::string>(),
            row[2].as<std::string>(), row[3].as<std::string>(), row[4].as<std::string>());
      look_at_parts(tx);
      look_at_open(tx);
    });
  }

  // What holds none of the tables is not in the list yet: it may be making some.
  void look_at_open(pqxx::transaction_base& tx) {
    for (auto row : tx.exec(std::string(sql::open_transactions))) {
      const auto object = "pid " + row[0].as<std::string>();
      if (row[1].as<double>() < 1 || !row[5].as<bool>() ||
          std::ranges::find(findings_, object, &Finding::object) != findings_.end())
        continue;
      add(Severity::warning, "source.long_transaction", object,
          row[3].as<std::string>() +
              ": it is waited for (transaction-wait), then ended or, with long-transactions: "
              "fail, the switchover ends",
          "Let it end first.");
    }
  }

  // What they write would be on one side only, or be refused by the fence, and with it the fence.
  void look_at_event_triggers(pg::Control& server, Side side) {
    for (const auto& one : catalog::load_unsilenced(server, side))
      add(Severity::blocker, fmt::format("{}.event_trigger", to_string(side)), "event trigger " + one.name,
          one.always ? "fires for pgbaton's own DDL, too: it is ENABLE ALWAYS or REPLICA"
                     : "fires for pgbaton's own DDL, too: the role may not set session_replication_role",
          fmt::format("ALTER EVENT TRIGGER {} {}; on the {}{}", one.name, one.always ? "ENABLE" : "DISABLE",
                      to_string(side), one.always ? "." : ", until the switchover has ended."));
  }

  // A replica of some columns or rows cannot take the place of its source.
  void look_at_parts(pqxx::transaction_base& tx) {
    if (source_.server_version() < 150000) return;
    for (auto row : tx.exec_params(
             "select distinct r.prrelid::regclass::text from pg_catalog.pg_publication_rel r join "
             "pg_catalog.pg_publication p on p.oid = r.prpubid where p.pubname in ($1, $2) and (r.prqual is not null "
             "or r.prattrs is not null)",
             replica_.publication, replica_.publication_inserts))
      add(Severity::blocker, "table.part", row[0].as<std::string>(), "only some of its rows or columns are carried",
          "Clone the table as a whole.");
  }

  void look_at_target() {
    pg::control(Side::target, "looking at the target", [&] {
      pqxx::read_transaction tx(target_);
      const bool sees_files =
          tx.exec1(
                "select pg_catalog.has_function_privilege('pg_catalog.pg_show_all_file_settings()', "
                "'execute')")[0]
              .as<bool>();
      if (tx.exec1(std::string(sql::read_only))[0].as<bool>() ||
          (sees_files && tx.exec1(std::string(sql::read_only_files))[0].as<bool>()))
        add(Severity::blocker, "target.read_only", "target", "has the setting default_transaction_read_only=on",
            "ALTER DATABASE (or ROLE, or SYSTEM) … RESET default_transaction_read_only");
      look_at_dependents(tx);
      look_at_fence(tx);
      for (auto row : tx.exec(std::string(sql::target_readers)))
        add(Severity::warning, "target.reader", "pid " + row[0].as<std::string>(), row[1].as<std::string>(),
            "Let it end first: the flip waits for it, 2 s at most, and is given up then.");
      look_at_statistics(tx);
    });
    const auto from = catalog::load_server(source_, Side::source), to = catalog::load_server(target_, Side::target);
    if (to.in_recovery)
      add(Severity::blocker, "target.standby", "target", "is a standby", "Promote it, or name another target.");
    if (to.major() < from.major())
      add(Severity::warning, "target.version", "target",
          fmt::format("is older than the source ({} and {})", to.major(), from.major()), "");
    if (setting(target_, "max_connections") < setting(source_, "max_connections"))
      add(Severity::warning, "target.max_connections", "target", "max_connections is smaller than on the source",
          "ALTER SYSTEM SET max_connections = …, and restart the target, before it has to serve.");
  }

  // A load behind the back of what closes the target (a former source, most of the time): the stream knows nothing of
  // it.
  void look_at_fence(pqxx::transaction_base& tx) {
    for (auto row :
         tx.exec("select t.tgrelid::regclass::text from pg_catalog.pg_trigger t join pg_catalog.pg_proc p on "
                 "p.oid = t.tgfoid join pg_catalog.pg_namespace n on n.oid = p.pronamespace where t.tgname = "
                 "'pgbaton_fence' and n.nspname = 'pgbaton_fence' and t.tgenabled <> 'A' order by 1")) {
      const auto table = row[0].as<std::string>();
      add(Severity::blocker, "target.fence", table,
          "its fence was put out of action (ALTER TABLE … TRIGGER): somebody may have written there, and can again",
          fmt::format(
              "ALTER TABLE {} ENABLE ALWAYS TRIGGER pgbaton_fence; where the stream leads, then pgbaton verify.",
              table));
    }
  }

  // Guard columns are dropped in the flip, never with CASCADE.
  void look_at_dependents(pqxx::transaction_base& tx) {
    for (auto row : tx.exec_params(
             "select distinct a.attrelid::regclass::text, pg_catalog.pg_describe_object(d.classid, d.objid, 0) "
             "from pg_catalog.pg_attribute a join pg_catalog.pg_depend d on d.refclassid = 'pg_class'::regclass and "
             "d.refobjid = a.attrelid and d.refobjsubid = a.attnum and d.deptype = 'n' where a.attname = $1 and not "
             "a.attisdropped",
             std::string(kGuardColumn)))
      add(Severity::blocker, "target.guard", row[0].as<std::string>(),
          fmt::format("{} uses the column {}, which goes at the flip", row[1].as<std::string>(), kGuardColumn),
          "Define it anew without that column.");
  }

  void look_at_statistics(pqxx::transaction_base& tx) {
    std::int64_t number = 0;
    std::string first;
    for (auto row :
         tx.exec("select c.oid::regclass::text from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = "
                 "c.relnamespace join pgbaton.table_state s on s.schema_name = n.nspname and s.table_name = c.relname "
                 "where c.relkind = 'r' and c.relpages > 0 and not exists (select from pg_catalog.pg_stats t where "
                 "t.schemaname = n.nspname and t.tablename = c.relname) and pg_catalog.has_table_privilege(c.oid, "
                 "'select') order by 1")) {
      if (number++ == 0) first = row[0].as<std::string>();
    }
    if (number > 0)
      add(Severity::warning, "target.statistics", first,
          fmt::format("it and {} more tables of the target have no statistics: plans may be bad", number - 1),
          "analyze: true in section switchover, or ANALYZE on the target.");
  }

  static std::int64_t setting(pg::Control& connection, const std::string& name) {
    pqxx::nontransaction tx(connection);
    return tx.exec_params1("select setting::bigint from pg_catalog.pg_settings where name = $1", name)[0]
        .as<std::int64_t>();
  }

  static std::vector<std::string> extensions(pg::Control& connection) {
    pqxx::nontransaction tx(connection);
    std::vector<std::string> names;
    for (auto row : tx.exec("select extname from pg_catalog.pg_extension order by 1"))
      names.push_back(row[0].as<std::string>());
    return names;
  }

  void look_at_extensions() {
    const auto there = extensions(target_);
    for (const auto& name : extensions(source_))
      if (std::ranges::find(there, name) == there.end())
        add(Severity::warning, "target.extension", "extension " + name, "is not on the target",
            fmt::format("CREATE EXTENSION {}; on the target, if the application needs it.", quote_identifier(name)));
  }

  void look_at_members() {
    for (const auto& one : catalog::load_left_members(source_, &target_))
      add(Severity::warning, "extension.rows", one.member.name.quoted(),
          one.message + (one.member.fenceable || one.member.kind == 'S' ? "" : "; no fence can be put on it, either"),
          one.remedy);
  }

  void look_at_sequences() {
    attempt("source.sequences", "sequences", [&] {
      std::vector<QualifiedName> missing;
      copy::require_sequences(source_, target_, options_.settings.sequence_gap, &missing);
      for (const auto& name : missing)
        add(Severity::warning, "target.sequence", name.quoted(), "does not exist on the target", "");
    });
  }

  const Options& options_;
  pg::Control &source_, &target_;
  state::Store store_;
  state::Replica replica_;
  const std::stop_token& stop_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> preflight(const Options& options, const std::stop_token& stop) {
  auto target = pg::open_control(options.stream.target, "preflight");
  state::Store store(*target);
  load_replica(store, options);
  auto source = pg::open_control(options.stream.source, "preflight");
  return Look(options, *source, *target, stop).run();
}

}  // namespace pgbaton::switchover
