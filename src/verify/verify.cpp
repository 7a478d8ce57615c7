// The story: a writer, ours or another's → cut → sums of every bucket → rows of those that differ → repair at further
// cuts → the repaired tables once more.
#include <pgbaton/stream/own_writer.hpp>
#include <pgbaton/verify/verify.hpp>

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/words.hpp>
#include <pgbaton/state/store.hpp>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "digest.hpp"
#include "drill.hpp"
#include "repair.hpp"
#include "verdict.hpp"

namespace pgbaton::verify {
namespace {

// How long a cut may take when --timeout does not say.
constexpr Milliseconds kCutWait{60'000};
// For a table that is rewritten again and again.
constexpr int kMostCuts = 3;
// For repairs: as long as differences become fewer, and not for ever.
constexpr int kMostRounds = 10;
// A rest in which rows are repaired ends by itself after this; a table without key needs the time of a scan.
// and so do all rows of a table at once.
constexpr Milliseconds kHoldKeyed{10'000}, kHoldLong{300'000};

// By table and key; shorter texts first, which is the order of whole numbers.
bool in_order(const Difference& a, const Difference& b) {
  if (a.table != b.table) return a.table < b.table;
  for (std::size_t i = 0; i < std::min(a.key.size(), b.key.size()); ++i) {
    if (a.key[i] == b.key[i]) continue;
    if (!a.key[i] || !b.key[i]) return !a.key[i];
    return std::pair(a.key[i]->size(), *a.key[i]) < std::pair(b.key[i]->size(), *b.key[i]);
  }
  return a.kind < b.kind;
}

class Run {
 public:
  Run(const Options& options, const std::stop_token& stop)
      : options_(options),
        stop_(stop),
        deadline_(options.timeout ? Deadline::after(*options.timeout) : Deadline::never()),
        target_(pg::open_control(options.stream.target, "verify")),
        source_(pg::open_control(options.stream.source, "verify")),
        store_(*target_),
        seed_(options.sample_percent < 100 ? std::random_device()() : 1) {}

  Report all() {
    const auto start = Clock::now();
    load();
    writer_ = stream::OwnWriter::start(options_.stream, replica_.name, options_.on_stream_error);
    auto found = compare({});
    report_.tables = found.tables;
    report_.not_compared = found.not_compared;
    report_.cut_lsn = found.cut_lsn;
    report_.differences_total = report_.remaining = found.total;
    report_.differences = found.differences;
    std::ranges::sort(report_.differences, in_order);
    verdict_->found(found.tables);
    if (options_.repair && found.total > 0) repair(std::move(found));
    report_.doubts = verdict_->settle(report_);
    add_others();
    report_.time = std::chrono::duration_cast<Milliseconds>(Clock::now() - start);
    note();
    return std::move(report_);
  }

 private:
  struct Found {
    Lsn cut_lsn;
    std::vector<TableResult> tables;
    std::int64_t total = 0;
    std::vector<Difference> differences;
    std::vector<QualifiedName> moved;
    std::vector<NotCompared> not_compared;
  };

  void load() {
    auto replica = store_.load_replica(options_.names.name);
    if (!replica || replica->phase < state::Phase::streaming)
      throw Error(ErrorKind::usage, replica ? fmt::format("the copy of replica {} is not complete (phase {})",
                                                          replica->name, to_string(replica->phase))
                                            : fmt::format("the target knows no replica named {}", options_.names.name))
          .side(Side::target)
          .hint(replica ? "Let `pgbaton clone` come to its end first." : "Make one with `pgbaton clone`.");
    replica_ = std::move(*replica);
    require_choice(options_.filter, replica_, store_.load_tables(replica_), *source_);
    verdict_.emplace(*target_, replica_, options_);
  }

  stream::SharedCut cut(std::optional<Milliseconds> hold) {
    stream::CutRequest request;
    request.source = options_.stream.source;
    request.target = options_.stream.target;
    request.replica = replica_.name;
    request.hold = hold;
    request.deadline = options_.timeout ? deadline_ : Deadline::after(kCutWait);
    request.while_waiting = [this] {
      if (writer_) writer_->check();
    };
    auto cut = stream::SharedCut::request(request, stop_);
    ++report_.cuts;
    note_pause(cut.pause());
    return cut;
  }
  void note_pause(Milliseconds pause) { report_.longest_pause = std::max(report_.longest_pause, pause); }

  // These tables, or all; those that were rewritten meanwhile at a cut of their own.
  Found compare(std::vector<QualifiedName> only) {
    Found all;
    for (int tries = 0;; ++tries) {
      auto found = compare_at_one_cut(only);
      if (!all.cut_lsn) all.cut_lsn = found.cut_lsn;
      all.total += found.total;
      std::ranges::move(found.tables, std::back_inserter(all.tables));
      std::ranges::move(found.differences, std::back_inserter(all.differences));
      std::ranges::move(found.not_compared, std::back_inserter(all.not_compared));
      if (found.moved.empty()) break;
      if (tries + 1 == kMostCuts)
        throw Error(ErrorKind::failed, fmt::format("{} was rewritten during each of {} comparisons",
                                                   found.moved.front().quoted(), kMostCuts))
            .table(found.moved.front().quoted())
            .hint("Run the same command again when no TRUNCATE or DDL runs on it.");
      only = found.moved;
    }
    std::ranges::sort(all.tables, {}, &TableResult::name);
    return all;
  }

  Found compare_at_one_cut(const std::vector<QualifiedName>& only) {
    const auto cut = this->cut(std::nullopt);
    log::info("comparing at {}", to_string(cut.lsn()));
    PGBATON_FAILPOINT("verify_cut");
    const auto plans = plan(only);
    ScanOptions scan{options_.stream.source,
                     options_.stream.target,
                     cut.source_snapshot(),
                     cut.target_snapshot(),
                     options_.jobs,
                     options_.max_rate,
                     deadline_};
    const auto digests = explained([&] { return digest_tables(scan, plans.tables, stop_); });
    PGBATON_FAILPOINT("verify_digested");

    Found found;
    found.cut_lsn = cut.lsn();
    found.not_compared = plans.not_compared;
    // What could not be repaired comes last: should it fill the list, the others have had their turn.
    for (const bool failed : {false, true})
      for (std::size_t i = 0; i < plans.tables.size(); ++i)
        if (failures_.contains(plans.tables[i].name) == failed) look_closer(cut, plans.tables[i], digests[i], found);
    return found;
  }

  // A statement that cannot be read: the condition's fault, or a column has changed.
  template <typename Work>
  auto explained(Work&& work) -> decltype(work()) try {
    return work();
  } catch (const Error& error) {
    if (!error.sqlstate().starts_with("42") || error.sqlstate() == "42501") throw;
    if (options_.where.empty())
      throw Error(ErrorKind::rejected, error.message())
          .side(error.side())
          .table(error.table())
          .hint("The table was changed while it was compared: run the same command again.");
    throw Error(ErrorKind::usage, "--where: " + error.message())
        .side(error.side())
        .table(error.table())
        .hint("Give a condition over columns that each compared table has; choose tables with --include-table.");
  }

  std::vector<state::TableState> tables() {
    auto states = store_.load_tables(replica_);
    for (const auto& doubt : state::load_doubts(*target_, replica_.name))
      for (auto& state : states)
        if (doubt.kind == state::DoubtKind::outside && state.name == doubt.table) {
          state.phase = state::TablePhase::skipped;
          state.note = doubt.reason;
        }
    return states;
  }

  // The name went to another table after the last look at the catalogs, which had seen no doubt in it.
  void add_others() {
    for (const auto& table : report_.not_compared)
      if (others_.contains(table.name) &&
          std::ranges::find(report_.doubts, table.name, &state::Doubt::table) == report_.doubts.end())
        report_.doubts.push_back({0,
                                  table.name,
                                  state::DoubtKind::differs,
                                  "is " + table.reason,
                                  "run the same command again, which says what mends it",
                                  {}});
  }

  Plans plan(const std::vector<QualifiedName>& only) {
    auto source = pg::Connection::open(options_.stream.source, "verify");
    auto target = pg::Connection::open(options_.stream.target, "verify");
    tables_version_ = store_.load_progress(replica_).tables_version;
    auto plans =
        plan_tables(options_, replica_, tables(), only, *source_, *target_, choose_hash_style(source, target), seed_);
    others_.insert(plans.others.begin(), plans.others.end());
    return plans;
  }

  void look_closer(const stream::SharedCut& cut, const TablePlan& plan, const TableDigest& digest, Found& found) {
    const auto start = Clock::now();
    const auto buckets = digest.differing();
    std::int64_t differences = 0;
    bool moved = digest.moved();
    if (!moved && !buckets.empty()) {
      SideSession source(options_.stream.source, Where::source, cut.source_snapshot(), deadline_, stop_);
      SideSession target(options_.stream.target, Where::target, cut.target_snapshot(), deadline_, stop_);
      moved = !find_differences(plan, source, target, in_buckets(plan, buckets), [&](Difference difference) {
        differences += difference.count;
        if (found.differences.size() < kListed) found.differences.push_back(std::move(difference));
      });
    }
    if (moved) {
      std::erase_if(found.differences, [&](const Difference& d) { return d.table == plan.name; });
      found.moved.push_back(plan.name);
      return;
    }
    found.total += differences;
    const auto& [here, there] = digest.sides;
    found.tables.push_back({plan.name, cut.lsn(), here.rows, there.rows,
                            static_cast<std::int64_t>(plan.side(Where::source).table.bytes), differences,
                            here.time + there.time + std::chrono::duration_cast<Milliseconds>(Clock::now() - start)});
  }

  // Whether a write to one table may change others: foreign keys and triggers act without the replica role, those that
  // are ENABLE ALWAYS or REPLICA always.
  bool writes_may_spread() {
    if (!replica_.replica_role) return true;
    return pg::control(Side::target, "looking for triggers", [&] {
      pqxx::nontransaction tx(*target_);
      return tx
          .exec1(
              "select exists (select from pg_trigger t join pg_class c on c.oid = t.tgrelid where t.tgenabled in "
              "('A', 'R') and c.relnamespace <> to_regnamespace('pgbaton')) or exists (select from pg_rewrite where "
              "ev_enabled in ('A', 'R'))")[0]
          .as<bool>();
    });
  }

  void repair(Found found) {
    const bool all_again = writes_may_spread();
    for (int round = 0; round < kMostRounds && found.total > 0; ++round) {
      std::vector<QualifiedName> names;  // also of those that were not listed
      for (const auto& table : found.tables)
        if (table.differences > 0) names.push_back(table.name);
      auto plans = plan(names);
      find_key_equality(plans.tables, *source_, *target_);
      const bool was_full = found.differences.size() == kListed;
      const auto failed_before = std::exchange(failures_, {}).size();
      repair_listed(plans, std::move(found.differences));
      const auto before = found.total;
      found = compare(all_again ? std::vector<QualifiedName>{} : names);
      verdict_->compared_again(found.tables);
      // More than kListed: the others had no turn yet.
      report_.remaining = found.total;
      // A table that failed may have taken all the places in the list: from now on it comes last.
      const bool others_wait = was_full && failures_.size() > failed_before;
      if (found.total >= before && !others_wait) break;
    }
    for (const auto& table : found.tables)
      if (const auto failure = failures_.find(table.name); failure != failures_.end() && table.differences > 0)
        report_.not_repaired.push_back(failure->second);
  }

  // Of each table, what is to go comes first, and never stands in the way of what is to come. `differences` are listed
  // table by table.
  void repair_listed(const Plans& plans, std::vector<Difference> differences) {
    std::vector<RepairBatch> batches;
    std::vector<RepairBatch> tables;
    for (auto& difference : differences) {
      const auto plan = std::ranges::find(plans.tables, difference.table, &TablePlan::name);
      if (plan == plans.tables.end()) continue;
      if (tables.empty() || tables.back().plan != &*plan) tables.push_back({&*plan, {}, true});
      tables.back().differences.push_back(std::move(difference));
    }
    std::size_t rows = 0;
    const auto flush = [&] {
      if (!batches.empty()) repair_batches(batches);
      batches.clear();
      rows = 0;
    };
    for (auto& table : tables) {
      std::ranges::stable_partition(table.differences, [](const auto& d) { return d.kind == Kind::extra; });
      for (const auto& difference : table.differences) {
        if (rows == kRepairBatch) flush();
        if (in_the_way_.contains(table.plan)) break;
        if (batches.empty() || batches.back().plan != table.plan) batches.push_back({table.plan, {}, false});
        batches.back().differences.push_back(difference);
        ++rows;
      }
    }
    flush();
    for (const auto& table : tables)
      if (in_the_way_.contains(table.plan)) repair_batches({table});
    in_the_way_.clear();
  }

  void repair_batches(const std::vector<RepairBatch>& batches) {
    const bool takes_long =
        std::ranges::any_of(batches, [](const auto& batch) { return batch.at_once || batch.plan->key.empty(); });
    for (int tries = 0; tries < kMostCuts; ++tries) {
      auto cut = this->cut(takes_long ? kHoldLong : kHoldKeyed);
      PGBATON_FAILPOINT("repair_cut");
      const auto repaired = repair_at(cut, options_, replica_, tables_version_, batches, stop_);
      note_pause(cut.release());
      if (!repaired) continue;
      note_repaired(*repaired, cut.lsn());
      return;
    }
    throw Error(ErrorKind::failed, "the writer went on before the rows were repaired")
        .action(Action::retry)
        .hint("Run the same command again.");
  }

  void note_repaired(const Repaired& repaired, Lsn cut_lsn) {
    for (const auto& failure : repaired.failures) {
      if (failure.at_once_may_help)
        in_the_way_.insert(failure.plan);
      else
        failures_.try_emplace(failure.plan->name, failure.error);
    }
    if (repaired.rows == 0) return;
    report_.repaired += repaired.rows;
    store_.add_event(replica_.name, "repair",
                     state::to_json({{"cut_lsn", to_string(cut_lsn)}, {"rows", std::to_string(repaired.rows)}}));
    log::info("repaired {} at {}", counted(repaired.rows, "row"), to_string(cut_lsn));
  }

  void note() {
    store_.add_event(replica_.name, "verify",
                     state::to_json({{"cut_lsn", to_string(report_.cut_lsn)},
                                     {"tables", std::to_string(report_.tables.size())},
                                     {"differences", std::to_string(report_.differences_total)},
                                     {"repaired", std::to_string(report_.repaired)}}));
  }

  const Options& options_;
  const std::stop_token& stop_;
  const Deadline deadline_;
  std::unique_ptr<pg::Control> target_, source_;
  state::Store store_;
  const std::uint32_t seed_;
  state::Replica replica_;
  std::optional<Verdict> verdict_;
  std::set<QualifiedName> others_;   // names that are those of other tables on the source
  std::int64_t tables_version_ = 0;  // as read before the last plan
  std::unique_ptr<stream::OwnWriter> writer_;
  Report report_;
  std::map<QualifiedName, Error> failures_;  // of the last round of repairs
  std::set<const TablePlan*> in_the_way_;    // tables whose rows are in each other's way: all at once, later
};

}  // namespace

std::int64_t Report::rows() const {
  return std::accumulate(tables.begin(), tables.end(), std::int64_t{0},
                         [](std::int64_t sum, const TableResult& table) { return sum + table.source_rows; });
}

bool Report::equal() const {
  return remaining == 0 && doubts.empty();
}

Report run(const Options& options, const std::stop_token& stop) {
  return Run(options, stop).all();
}

}  // namespace pgbaton::verify
