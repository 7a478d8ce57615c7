// Worked example. Leaf p3 is made at 0/500 and gets rows at 0/520 and 0/700. The stream stands before 0/520, which is a
// row of a table that nobody knows. A temporary slot gives boundary 0/600: the copy holds the row of 0/520, the stream
// then skips it (commit LSN < boundary) and applies that of 0/700.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/words.hpp>
#include <pgbaton/catalog/shape.hpp>
#include <pgbaton/copy/finalize.hpp>
#include <pgbaton/pg/connection.hpp>
#include <pgbaton/snapshot/take_in.hpp>
#include <pgbaton/source/publication.hpp>
#include <pgbaton/source/slot.hpp>

#include <algorithm>
#include <map>
#include <set>

#include "fingerprint.hpp"
#include "plan.hpp"
#include "remnants.hpp"
#include "renamed.hpp"

namespace pgbaton::snapshot {

namespace {

using catalog::Oid;
using state::TablePhase;

// A leaf that is changed by DDL between its description and the snapshot is taken again.
constexpr int kRounds = 5;

class TakeIn {
 public:
  TakeIn(const CloneOptions& options, const state::Replica& replica, const std::stop_token& stop)
      : options_(options),
        replica_(replica),
        stop_(stop),
        source_(pg::open_control(options.source, "take-in")),
        target_(pg::open_control(options.target, "take-in")),
        store_(*target_) {
    apply_recorded_choice(replica, options_);
  }

  int run() {
    auto jobs = new_partitions();
    if (jobs.empty()) return 0;
    for (auto& job : jobs) {
      make_on_target(job.table);
      // By its root, whose default is older than any boundary of today; or by a ledger, made when its rows are there.
      if (has_guard(job.table.name))
        job.state.guard = state::GuardKind::column;
      else if (job.state.guard == state::GuardKind::column)
        job.state.guard = state::GuardKind::none;
      job.state.guarded = job.state.guard != state::GuardKind::ledger;
    }
    store_.add_tables(replica_, states(jobs));
    std::erase_if(jobs, [](const copy::CopyJob& job) { return job.state.phase == TablePhase::skipped; });
    const int leaves = static_cast<int>(jobs.size());
    for (int round = 1; !jobs.empty(); ++round) {
      if (round > kRounds)
        throw Error(ErrorKind::failed, "a new partition is changed again and again while it is to be copied")
            .side(Side::source)
            .table(jobs.front().table.name.quoted())
            .hint("Stop the DDL on it, then run the same command again.");
      jobs = copy_at_new_boundary(std::move(jobs));
    }
    return leaves;
  }

 private:
  // Parents before their partitions. Recorded as pending ones are leaves of an earlier try.
  std::vector<copy::CopyJob> new_partitions() {
    std::map<Oid, state::TableState> known;
    for (auto& table : store_.load_tables(replica_)) known.emplace(table.source_oid, table);
    std::set<QualifiedName> published;
    for (const auto& publication : {replica_.publication, replica_.publication_inserts})
      if (!publication.empty())
        for (const auto& name : source::published_tables(*source_, publication)) published.insert(name);
    std::vector<copy::CopyJob> jobs;
    auto plan = plan_tables(*source_, target_.get(), options_);
    for (auto& job : plan.jobs) {
      const auto recorded = known.find(job.table.oid);
      const bool unfinished =
          recorded != known.end() && recorded->second.phase == TablePhase::pending && !recorded->second.detached;
      if (recorded != known.end() && !unfinished) continue;
      // Its table on the target, and its state, have the name that it had.
      if (unfinished && recorded->second.name != job.table.name) throw renamed(recorded->second.name, job.table.name);
      const bool streamed = published.contains(job.table.name) || job.table.kind == 'p';
      if (job.table.root_oid != 0 && known.contains(job.table.root_oid) && streamed) jobs.push_back(std::move(job));
    }
    give_identities(plan.identity_full, jobs);
    std::map<Oid, int> depth;
    for (int i = 0; i < static_cast<int>(jobs.size()); ++i)  // as deep as there are jobs at most
      for (const auto& job : jobs)
        if (const auto parent = depth.find(job.table.parent_oid); parent != depth.end())
          depth[job.table.oid] = parent->second + 1;
        else
          depth.emplace(job.table.oid, 0);
    std::ranges::stable_sort(jobs, {}, [&](const copy::CopyJob& job) { return depth[job.table.oid]; });
    return jobs;
  }

  // As their siblings got theirs (--keyless full).
  void give_identities(std::vector<ChosenIdentity> chosen, const std::vector<copy::CopyJob>& jobs) {
    std::erase_if(chosen, [&](const ChosenIdentity& one) {
      return std::ranges::none_of(jobs, [&](const copy::CopyJob& job) { return job.table.oid == one.oid; });
    });
    if (chosen.empty()) return;
    record_identities(*target_, replica_, chosen);
    set_identity_full(*source_, chosen, options_.slot_wait, stop_);
  }

  static std::vector<state::TableState> states(const std::vector<copy::CopyJob>& jobs) {
    std::vector<state::TableState> states;
    for (const auto& job : jobs) states.push_back(job.state);
    return states;
  }

  bool has_guard(const QualifiedName& name) {
    const auto table = catalog::load_table(*target_, name, Side::target);
    return table && table->has_guard_column;
  }

  void make_on_target(const catalog::Table& table) {
    if (catalog::load_table(*target_, table.name, Side::target)) return;
    const auto sql = definition(table);
    log::info("{}: a new partition, made on the target: {}", table.name.quoted(), sql);
    try {
      pg::control(Side::target, "making the new partition " + table.name.quoted(), [&] {
        pqxx::work tx(*target_);
        tx.exec0("set local lock_timeout = '30s'");
        tx.exec0(sql);
        tx.commit();
      });
    } catch (Error& error) {
      if (error.action() == Action::retry) throw;
      throw Error(ErrorKind::rejected, error.message())
          .side(Side::target)
          .sqlstate(error.sqlstate())
          .table(table.name.quoted())
          .hint("Make it by hand on the target, then run the same command again: " + sql);
    }
  }

  std::string definition(const catalog::Table& table) {
    return pg::control(Side::source, "reading the bounds of " + table.name.quoted(), [&] {
      pqxx::nontransaction tx(*source_);
      const auto row = tx.exec_params1(
          "select n.nspname, p.relname, pg_get_expr(c.relpartbound, c.oid) as bounds, "
          "coalesce(' PARTITION BY ' || pg_get_partkeydef(c.oid), '') as key "
          "from pg_catalog.pg_class c join pg_catalog.pg_inherits i on i.inhrelid = c.oid "
          "join pg_catalog.pg_class p on p.oid = i.inhparent join pg_catalog.pg_namespace n on n.oid = p.relnamespace "
          "where c.oid = $1",
          table.oid);
      const QualifiedName parent{row["nspname"].as<std::string>(), row["relname"].as<std::string>()};
      auto sql = fmt::format("CREATE TABLE {} PARTITION OF {} {}{}", table.name.quoted(), parent.quoted(),
                             row["bounds"].as<std::string>(), row["key"].as<std::string>());
      if (table.replica_identity == 'f')
        sql += fmt::format("; ALTER TABLE {} REPLICA IDENTITY FULL", table.name.quoted());
      return sql;
    });
  }

  std::vector<copy::CopyJob> copy_at_new_boundary(std::vector<copy::CopyJob> jobs) {
    auto name = free_temporary_slot(*source_, options_.names);
    const auto snapshot = source::SlotSnapshot::create(options_.source, {name, true, options_.slot_wait}, stop_);
    store_.add_event(replica_.name, "boundary",
                     state::to_json({{"lsn", to_string(snapshot.consistent_point())}, {"slot", name}}));
    copy::CopyOptions copying;
    copying.source = options_.source;
    copying.target = options_.target;
    copying.jobs = options_.jobs;
    copying.max_rate = options_.max_rate;
    copying.replica_role = replica_.replica_role;
    copy::CopyProgress progress;
    auto result = copy::copy_tables(
        copying, replica_, std::move(jobs), snapshot.snapshot_id(), snapshot.consistent_point(), progress,
        [](const copy::CopyJob&) {}, stop_);
    for (auto& job : result.dropped) {
      job.state.phase = TablePhase::skipped;
      job.state.note = kDroppedBeforeCopy;
      store_.store_table(replica_, job.state);
    }
    finish_copied();
    auto left = std::move(result.rewritten);
    std::move(result.unfinished.begin(), result.unfinished.end(), std::back_inserter(left));
    describe_again(left);
    return left;
  }

  void finish_copied() {
    for (auto& table : store_.load_tables(replica_)) {
      if (table.phase != TablePhase::copied) continue;
      if (!table.guarded) make_ledger(table);
      table.phase = TablePhase::done;
      store_.finish_table(replica_, table);
      store_.add_event(replica_.name, "partition_taken_in", state::to_json({{"table", table.name.quoted()}}));
      log::info("{}: copied {} at boundary {}", table.name.quoted(), counted(table.rows, "row"),
                to_string(table.boundary));
    }
  }

  // Nothing streams meanwhile. Without a ledger the progress row alone guards the table.
  void make_ledger(state::TableState& table) {
    auto now = catalog::load_tables(*source_, {table.source_oid});
    if (now.empty() || !copy::add_ledger(*target_, replica_.name, now.front(), table))
      table.guard = state::GuardKind::none;
    table.guarded = true;
  }

  void describe_again(std::vector<copy::CopyJob>& jobs) {
    for (auto& job : jobs) {
      auto now = catalog::load_tables(*source_, {job.table.oid});
      if (now.empty()) continue;  // dropped: the copy finds out
      if (now.front().name != job.table.name) throw renamed(job.table.name, now.front().name);
      job.table = std::move(now.front());
      job.state.source_shape = catalog::shape_json(job.table);
    }
  }

  CloneOptions options_;
  const state::Replica& replica_;
  const std::stop_token& stop_;
  std::unique_ptr<pg::Control> source_, target_;
  state::Store store_;
};

}  // namespace

int take_in_partitions(const CloneOptions& options, const state::Replica& replica, const std::stop_token& stop) {
  return TakeIn(options, replica, stop).run();
}

}  // namespace pgbaton::snapshot
