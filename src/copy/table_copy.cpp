// One table, step by step:
//
//   source: SAVEPOINT · LOCK … ACCESS SHARE · what do the names mean now? · relfilenode as the snapshot sees it = now?
//   target: BEGIN · TRUNCATE (or DELETE) · COPY FROM ← source: COPY TO · state row · COMMIT
// Of a table in parts, TRUNCATE and a line of state for each part are committed before the first, each part with its
// line, and the last with the table's state row. Every part takes the lock and looks at the source again.
//
//   source: ROLLBACK TO SAVEPOINT, which gives the lock back, so that DDL waits for one table's copy and not for all
//
// The snapshot's catalogs are old: pg_class in it still shows a dropped table, and the old file of a rewritten one.
// What is true now is asked through the lock, through functions that read the current catalog (pg_relation_filenode,
// the output of regclass), and through the relation and column numbers that come with a result. A table is known by its
// oid: what the name means now may be another one, and only an oid that has no name any more was dropped.
#include "table_copy.hpp"

#include <fmt/format.h>
#include <pgbaton/base/words.hpp>

#include <charconv>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/pg/copy.hpp>
#include <pgbaton/pg/sqlstate.hpp>

namespace pgbaton::copy {
namespace {

// How often counters, the rate limit and a request to end are looked at.
constexpr std::int64_t kStepBytes = 64 * 1024;

// What LOCK and SELECT say when the name is nobody's, or that of something else by now: there is no such table or
// schema, it is no table, or it is one that we may not read.
bool may_be_another(std::string_view sqlstate) {
  return sqlstate == "42P01" || sqlstate == "3F000" || sqlstate == "42809" || sqlstate == "42501";
}

std::int64_t to_number(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Error drifted(const catalog::Table& table, std::string_view what) {
  return Error(ErrorKind::rejected, fmt::format("the table changed on the source since the snapshot: {}", what))
      .side(Side::source)
      .table(table.name.quoted())
      .hint("Drop the replica and clone again, with no DDL on the source's tables while the copy runs.");
}

Error renamed(const catalog::Table& table, std::string_view now) {
  return drifted(table, fmt::format("it was renamed to {}", now))
      .hint(
          "Rename it back and run the same command again, or begin anew: `pgbaton clone --restart`; a rebuild always "
          "does.");
}

// Of the relation with the table's oid: what it is called now (digits: it is gone), whether that is still its name, and
// its file (none: it is no table).
std::string identity_query(const catalog::Table& table) {
  return fmt::format(
      "SELECT now, now = pg_catalog.format('%I.%I', {}, {}), pg_catalog.pg_relation_filenode({}) FROM (SELECT "
      "pg_catalog.format('%s', {}::pg_catalog.regclass) AS now) AS relation",
      quote_literal(table.name.schema), quote_literal(table.name.name), table.oid, table.oid);
}

// "COPY t, line 3, column a: …": libpq keeps it in the text of the connection's last error.
std::string copy_context(const pg::Connection& connection) {
  std::string_view text = PQerrorMessage(connection.get());
  constexpr std::string_view kContext = "CONTEXT:  ";
  const auto at = text.find(kContext);
  if (at == text.npos) return {};
  text.remove_prefix(at + kContext.size());
  return std::string(text.substr(0, text.find('\n')));
}

void require_all_stored(long long sent, long long stored) {
  if (sent == stored) return;
  throw Error(ErrorKind::rejected,
              fmt::format("the source sent {}, the target stored {}", counted(sent, "row"), stored))
      .side(Side::target)
      .hint("Look for a trigger or rule on the target's table that drops rows (ENABLE ALWAYS or REPLICA).");
}

// The sum of all attempts stays what the longest of them has counted.
class Meter {
 public:
  Meter(CopyProgress& progress, Counted& counted) : progress_(progress), counted_(counted) {}
  void chunk(std::size_t bytes) {
    ++chunks_;
    bytes_ += static_cast<std::int64_t>(bytes);
  }
  bool due() const { return bytes_ - stepped_ >= kStepBytes; }
  // Publishes; returns the bytes since the last time. A chunk is a row, but binary has one more for its end.
  std::int64_t step() {
    publish(chunks_ - 1);
    return bytes_ - std::exchange(stepped_, bytes_);
  }
  void finish(std::int64_t rows) { publish(rows); }
  std::int64_t bytes() const { return bytes_; }

 private:
  void publish(std::int64_t rows) {
    raise(progress_.rows, counted_.rows, rows);
    raise(progress_.bytes, counted_.bytes, bytes_);
    if (counted_.shown) counted_.shown->bytes = counted_.bytes;
  }
  static void raise(std::atomic<std::int64_t>& total, std::int64_t& counted, std::int64_t now) {
    if (now <= counted) return;
    total += now - counted;
    counted = now;
  }
  CopyProgress& progress_;
  Counted& counted_;
  std::int64_t chunks_ = 0, bytes_ = 0, stepped_ = 0;
};

}  // namespace

void TableCopy::release(pg::Connection& source) {
  source.exec("ROLLBACK TO SAVEPOINT part; RELEASE SAVEPOINT part");
}

TableOutcome TableCopy::run(const Work& work, Counted& counted) {
  const auto& job = work.table->job;
  try {
    source_.exec("SAVEPOINT part");
    // A root has no rows of its own.
    if (job.table.kind != 'p') {
      if (auto outcome = lock_source(job.table)) return *outcome;
      if (auto outcome = compare_description(job.table)) return *outcome;
    }
    auto target_table = load_target_table(target_, job.table.name);
    target_table.keep_readers = pool_.context().options.replace_rows;
    const auto plan = plan_copy(
        job.table, target_table,
        pool_.context().options.binary && source_.server_version() / 10000 == target_.server_version() / 10000,
        work.is_part() ? &work.table->ranges[work.part] : nullptr);
    if (job.table.kind != 'p') {
      if (auto outcome = compare_source(job.table, plan)) return *outcome;
    }
    if (work.is_part()) {
      begin_parts(*work.table, plan);
      if (counted.sent && is_recorded(work)) return settle_part(work, *counted.sent);
    }
    target_.exec("BEGIN");
    Stored stored;
    if (job.table.kind != 'p') {
      stored = store_rows(work, plan, counted);
      require_read(job.table);
    }
    counted.sent = stored;
    return work.is_part() ? commit_part(work, stored) : commit_table(*work.table, stored);
  } catch (Error& error) {
    if (error.table().empty()) error.table(job.table.name.quoted());
    error.context("copying " + job.table.name.quoted());
    throw;
  }
}

std::optional<TableOutcome> TableCopy::lock_source(const catalog::Table& table) {
  try {
    return identify(table, source_.exec(fmt::format("LOCK TABLE ONLY {} IN ACCESS SHARE MODE; {}", table.name.quoted(),
                                                    identity_query(table))));
  } catch (const Error& error) {
    if (!may_be_another(error.sqlstate())) throw;
    auto outcome = identify_after_error(table);
    if (!outcome) throw;
    return outcome;
  }
}

std::optional<TableOutcome> TableCopy::identify(const catalog::Table& table, const pg::Result& answer) {
  const auto now = answer.value(0, 0);
  if (now == std::to_string(table.oid)) return TableOutcome::dropped;
  if (answer.value(0, 1) != "t") throw renamed(table, now);
  if (answer.is_null(0, 2)) throw drifted(table, "it is no table any more");
  return std::nullopt;
}

std::optional<TableOutcome> TableCopy::identify_after_error(const catalog::Table& table) {
  release(source_);
  source_.exec("SAVEPOINT part");
  return identify(table, source_.exec(identity_query(table)));
}

// The lock keeps a table's name, but not that of its schema.
void TableCopy::require_read(const catalog::Table& table) {
  if (lock_source(table))
    throw Error(ErrorKind::failed, "the table is gone although it is locked").side(Side::source).action(Action::bug);
}

// The table was described before the snapshot was taken, and that can take minutes while open transactions end. A
// column that was added between the two is on the target, which has the snapshot's schema, but would not be copied; its
// changes up to the snapshot are in no stream either.
std::optional<TableOutcome> TableCopy::compare_description(const catalog::Table& table) {
  const auto columns = source_.exec(fmt::format(
      "SELECT attnum, atttypid, attname FROM pg_catalog.pg_attribute WHERE attrelid = {} AND attnum > 0 AND NOT "
      "attisdropped ORDER BY attnum",
      table.oid));
  if (columns.rows() == 0) return std::nullopt;  // no columns, or no table: the comparison with the plan tells
  bool same = static_cast<std::size_t>(columns.rows()) == table.columns.size();
  for (int row = 0; same && row < columns.rows(); ++row) {
    const auto& column = table.columns[static_cast<std::size_t>(row)];
    same = columns.text(row, 0) == std::to_string(column.number) &&
           columns.text(row, 1) == std::to_string(column.type_oid) && columns.text(row, 2) == column.name;
  }
  if (same) return std::nullopt;
  log::info("{} was changed while the snapshot was taken and gets a boundary of its own", table.name.quoted());
  return TableOutcome::rewritten;
}

std::optional<TableOutcome> TableCopy::compare_source(const catalog::Table& table, const CopyPlan& plan) {
  std::optional<pg::Result> probe;
  try {
    probe = source_.exec(plan.probe);
  } catch (const Error& error) {
    if (error.sqlstate() == "42703") throw drifted(table, error.message());
    if (may_be_another(error.sqlstate())) identify_after_error(table);
    throw;
  }
  if (PQftable(probe->get(), 0) != table.oid) {  // the schema was renamed since it was locked, or
    if (auto outcome = lock_source(table)) return outcome;
    return TableOutcome::rewritten;  // for a moment only
  }
  for (std::size_t i = 0; i < plan.columns.size(); ++i)
    if (PQftablecol(probe->get(), static_cast<int>(i)) != plan.columns[i]->number)
      throw drifted(table, fmt::format("column {} is another one", quote_identifier(plan.columns[i]->name)));
  const auto files = source_.exec(fmt::format(
      "SELECT relfilenode, pg_catalog.pg_relation_filenode(oid) FROM pg_catalog.pg_class WHERE oid = {}", table.oid));
  if (files.rows() == 0)
    throw Error(ErrorKind::failed, "the snapshot does not know the table").side(Side::source).action(Action::bug);
  if (files.is_null(0, 1)) throw drifted(table, "it is no table any more");
  if (files.value(0, 0) == files.value(0, 1)) return std::nullopt;
  log::info("{} was rewritten since the snapshot and gets a boundary of its own", table.name.quoted());
  return TableOutcome::rewritten;
}

void TableCopy::begin_parts(TableWork& table, const CopyPlan& plan) {
  const std::lock_guard lock(table.mutex);
  if (table.begun) return;
  const auto& replica = pool_.context().replica;
  const auto& name = table.job.table.name;
  std::vector<state::CopyPart> parts;
  for (const auto& range : table.ranges) parts.push_back({static_cast<int>(parts.size()), range.first, range.end});
  auto state = table.job.state;
  state.phase = state::TablePhase::copying;
  state.rows = state.bytes = 0;
  target_.exec("BEGIN");
  target_.exec(plan.clear);
  execute_fenced(state::Store::copied_statement(replica, state));
  target_.exec(state::Store::forget_parts_statement(replica, name));
  target_.exec(state::Store::plan_parts_statement(replica, name, parts));
  target_.exec("COMMIT");
  PGBATON_FAILPOINT("copy_parts_begun");
  table.job.state = std::move(state);
  table.begun = true;
}

Stored TableCopy::store_rows(const Work& work, const CopyPlan& plan, Counted& counted) try {
  if (!work.is_part()) target_.exec(plan.clear);
  return plan.columnless ? insert_rows(plan, counted) : pipe_rows(work, plan, counted);
} catch (const Error& error) {
  if (error.side() != Side::target || !pg::is_data_error(error.sqlstate())) throw;
  const auto context = copy_context(target_);
  throw Error(ErrorKind::rejected, context.empty() ? error.message() : fmt::format("{} ({})", error.message(), context))
      .side(Side::target)
      .sqlstate(error.sqlstate())
      .table(work.table->job.table.name.quoted())
      .key(error.key())
      .hint(
          "The target does not accept this row: change the row on the source or the rule on the target, or exclude the "
          "table.");
}

Stored TableCopy::insert_rows(const CopyPlan& plan, Counted& counted) {
  const auto count = source_.exec(plan.read).text(0, 0);
  const auto stored = target_.exec(plan.write + count + ")").affected();
  require_all_stored(to_number(count), stored);
  Meter(pool_.context().progress, counted).finish(stored);
  return {stored, 0};
}

Stored TableCopy::pipe_rows(const Work& work, const CopyPlan& plan, Counted& counted) {
  Meter meter(pool_.context().progress, counted);
  [[maybe_unused]] bool half = false;
  pg::CopyOut out(source_, plan.read);
  pg::CopyIn in(target_, plan.write);
  for (auto chunk = out.read(); !chunk.empty(); chunk = out.read()) {
    in.write(chunk);
    meter.chunk(chunk.size());
    if (!meter.due()) continue;
    const auto bytes = static_cast<std::uint64_t>(meter.step());
    if (!half && meter.bytes() * 2 >= work.bytes()) {
      half = true;
      PGBATON_FAILPOINT("copy_table_half");
    }
    if (pool_.halted()) throw Error(ErrorKind::failed, "interrupted").hint("Run the same command again to go on.");
    if (target_failed_) break;
    if (auto rest = pool_.rate().book(bytes); rest > Milliseconds(0)) sleep_for(rest, pool_.halt_token());
  }
  if (!half) PGBATON_FAILPOINT("copy_table_half");
  const auto stored = in.finish();  // throws what the target objected to, if it did
  if (target_failed_) throw Error(ErrorKind::failed, "the copy was cut short").side(Side::target).action(Action::retry);
  meter.finish(stored);
  require_all_stored(out.rows(), stored);
  return {stored, meter.bytes()};
}

TableOutcome TableCopy::commit_table(TableWork& table, const Stored& stored) {
  // Parts of an earlier snapshot: the table has just been emptied of them.
  if (table.job.state.phase == state::TablePhase::copying)
    target_.exec(state::Store::forget_parts_statement(pool_.context().replica, table.job.table.name));
  auto state = store_state(table, stored);
  PGBATON_FAILPOINT("copy_before_commit");
  target_.exec("COMMIT");
  table.job.state = std::move(state);
  table.left = 0;
  PGBATON_FAILPOINT("copy_after_commit");
  return TableOutcome::copied;
}

TableOutcome TableCopy::commit_part(const Work& work, const Stored& stored) {
  record_part(work, stored);
  auto& table = *work.table;
  // One at a time, so that one of them knows to be the last.
  const std::lock_guard lock(table.mutex);
  return finish_part(table, stored);
}

TableOutcome TableCopy::settle_part(const Work& work, const Stored& stored) {
  target_.exec("BEGIN");
  const std::lock_guard lock(work.table->mutex);
  return finish_part(*work.table, stored);
}

TableOutcome TableCopy::finish_part(TableWork& table, const Stored& stored) {
  const Stored all{table.rows + stored.rows, table.bytes + stored.bytes};
  const bool last = table.left == 1;
  auto state = table.job.state;
  if (last) {
    state = store_state(table, all);
    target_.exec(state::Store::forget_parts_statement(pool_.context().replica, table.job.table.name));
  }
  PGBATON_FAILPOINT("copy_before_commit");
  target_.exec("COMMIT");
  PGBATON_FAILPOINT("copy_after_commit");
  table.rows = all.rows;
  table.bytes = all.bytes;
  --table.left;
  table.job.state = std::move(state);
  return last ? TableOutcome::copied : TableOutcome::part_copied;
}

bool TableCopy::is_recorded(const Work& work) {
  return target_
             .exec(state::Store::part_recorded_query(pool_.context().replica, work.table->job.table.name,
                                                     static_cast<int>(work.part)))
             .value(0, 0) == "t";
}

void TableCopy::record_part(const Work& work, const Stored& stored) {
  const auto& replica = pool_.context().replica;
  const auto number = static_cast<int>(work.part);
  const auto statement = state::Store::record_part_statement(replica, work.table->job.table.name,
                                                             {number, 0, {}, stored.rows, stored.bytes});
  if (target_.exec(statement).affected() == 1) return;
  // An attempt whose connection we had lost was still about to commit.
  if (is_recorded(work))
    throw Error(ErrorKind::failed, "an earlier attempt has committed this part")
        .side(Side::target)
        .action(Action::retry);
  throw fenced();
}

state::TableState TableCopy::store_state(const TableWork& table, const Stored& all) {
  auto state = table.job.state;
  state.boundary = pool_.context().boundary;
  state.phase = state::TablePhase::copied;
  state.rows = all.rows;
  state.bytes = all.bytes;
  execute_fenced(state::Store::copied_statement(pool_.context().replica, state));
  return state;
}

void TableCopy::execute_fenced(const std::string& statement) {
  if (target_.exec(statement).affected() != 1) throw fenced();
}

}  // namespace pgbaton::copy
