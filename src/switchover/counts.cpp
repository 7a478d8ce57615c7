// verify: counts. All tables are counted at a cut while both sides are live; in the pause, when neither side moves, as
// many as fit into the limit, smallest first: a count of a large table would take longer than all other steps.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/pg/connection.hpp>
#include <pgbaton/source/slot.hpp>
#include <pgbaton/stream/shared_cut.hpp>

#include <algorithm>
#include <thread>

#include "parts.hpp"

namespace pgbaton::switchover {

namespace {

using Rows = std::vector<std::int64_t>;

std::int64_t count_rows(pg::Connection& connection, const QualifiedName& table) {
  return std::stoll(connection.exec("select count(*) from only " + table.quoted()).text(0, 0));
}

// Until one side is out of time; what it has then.
Rows count_side(pg::Connection& connection, const std::vector<Count>& tables, Deadline deadline) {
  Rows rows;
  for (const auto& table : tables) {
    if (deadline.passed()) break;
    rows.push_back(count_rows(connection, table.table));
  }
  return rows;
}

// No count outlives the limit by much: what it may take is set anew whenever a tenth of what is left has gone, which
// for many small tables costs less than a statement more for each of them.
Rows count_at_rest_side(const pg::Endpoint& endpoint, const std::vector<Count>& tables, Milliseconds limit) {
  auto connection = pg::Connection::open(endpoint, "count");
  Rows rows;
  const auto deadline = Deadline::after(limit);
  auto granted = Milliseconds::max();
  try {
    for (const auto& table : tables) {
      if (deadline.passed()) break;
      if (const auto left = std::max(deadline.left(limit), Milliseconds(1)); left < granted / 10 * 9) {
        connection.exec(fmt::format("set statement_timeout = {}", left.count()));
        granted = left;
      }
      rows.push_back(count_rows(connection, table.table));
    }
  } catch (const Error& error) {
    if (error.sqlstate() != "57014") throw;  // this table is too large for the limit
  }
  return rows;
}

Counted compare(const std::vector<Count>& tables, const Rows& source, const Rows& target) {
  Counted result;
  const auto both = std::min(source.size(), target.size());
  for (std::size_t i = 0; i < both; ++i) {
    if (source[i] != target[i])
      throw Error(ErrorKind::differences, fmt::format("{} has {} rows on the source and {} on the target",
                                                      tables[i].table.quoted(), source[i], target[i]))
          .table(tables[i].table.quoted())
          .hint("`pgbaton verify` names the rows; `pgbaton verify --repair` mends them.");
    ++result.tables;
    result.rows += source[i];
  }
  result.left_out = static_cast<std::int64_t>(tables.size() - both);
  return result;
}

// Both at the same time, each on a thread of its own.
template <typename Work>
std::pair<Rows, Rows> on_both(Work&& work) {
  Rows source, target;
  std::exception_ptr failed;
  std::jthread other([&] {
    try {
      target = work(Side::target);
    } catch (...) {
      failed = std::current_exception();
    }
  });
  source = work(Side::source);
  other.join();
  if (failed) std::rethrow_exception(failed);
  return {source, target};
}

}  // namespace

std::vector<Count> counted_tables(const Options& options, state::Store& store, const state::Replica& replica,
                                  pg::Control& source) {
  std::map<QualifiedName, const catalog::Table*> known;
  const auto all = catalog::load_tables(source);
  for (const auto& table : all)
    if (table.kind == 'r' && table.persistence == 'p') known.emplace(table.name, &table);
  std::vector<Count> tables;
  for (const auto& table : store.load_tables(replica)) {
    const auto found = known.find(table.name);
    if (table.phase == state::TablePhase::skipped || table.detached || found == known.end()) continue;
    if (!found->second->row_filter.empty()) continue;
    if (table.inserts_only && may_stay_behind(options, table.name)) continue;
    tables.push_back({table.name, found->second->bytes});
  }
  std::ranges::sort(tables, {}, &Count::bytes);
  return tables;
}

Counted count_at_cut(const Options& options, const std::vector<Count>& tables, const std::stop_token& stop) {
  stream::CutRequest request;
  request.source = options.stream.source;
  request.target = options.stream.target;
  request.replica = options.names.name;
  request.deadline = Deadline::after(options.settings.transaction_wait);
  const auto cut = stream::SharedCut::request(request, stop);
  auto source = source::open_snapshot_worker(options.stream.source, cut.source_snapshot(), "count");
  PGBATON_FAILPOINT("switchover_counting");
  auto target = source::open_snapshot_worker(options.stream.target, cut.target_snapshot(), "count");
  const auto [on_source, on_target] =
      on_both([&](Side side) { return count_side(side == Side::source ? source : target, tables, Deadline::never()); });
  return compare(tables, on_source, on_target);
}

Counted count_at_rest(const Options& options, const std::vector<Count>& tables) {
  const auto [on_source, on_target] = on_both([&](Side side) {
    return count_at_rest_side(side == Side::source ? options.stream.source : options.stream.target, tables,
                              options.settings.verify_limit);
  });
  return compare(tables, on_source, on_target);
}

}  // namespace pgbaton::switchover
