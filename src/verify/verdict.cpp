#include "verdict.hpp"

#include <fmt/format.h>
#include <pgbaton/base/log.hpp>

#include <algorithm>

namespace pgbaton::verify {

Verdict::Verdict(pg::Control& target, const state::Replica& replica, const Options& options)
    : target_(target),
      replica_(replica),
      options_(options),
      whole_(options.where.empty() && options.sample_percent == 100) {
  for (const auto& doubt : state::load_doubts(target_, replica_.name)) last_id_ = std::max(last_id_, doubt.id);
}

void Verdict::found(const std::vector<TableResult>& tables) {
  std::vector<state::Finding> findings;
  for (const auto& table : tables) {
    left_[table.name] = table.differences;
    if (table.differences > 0) findings.push_back({table.name, table.differences, table.cut_lsn});
  }
  own_ = state::store_findings(target_, replica_.name, replica_.generation, findings, whole_);
}

void Verdict::compared_again(const std::vector<TableResult>& tables) {
  for (const auto& table : tables) left_[table.name] = table.differences;
}

std::vector<state::Doubt> Verdict::settle(const Report& report) {
  std::vector<QualifiedName> equal;
  for (const auto& [table, differences] : left_)
    if (differences == 0) equal.push_back(table);
  if (whole_ && last_id_ > 0) state::settle_doubts(target_, replica_.name, equal, last_id_);
  auto doubts = state::load_doubts(target_, replica_.name);
  std::set<std::int64_t> mended;
  for (const auto& doubt : doubts)
    if (own_.contains(doubt.id) && std::ranges::find(equal, doubt.table) != equal.end()) mended.insert(doubt.id);
  state::remove_doubts(target_, replica_.name, mended);
  std::erase_if(doubts, [&](const state::Doubt& doubt) {
    const bool chosen =
        options_.filter.empty() ||
        std::ranges::find(report.tables, doubt.table, &TableResult::name) != report.tables.end() ||
        std::ranges::find(report.not_compared, doubt.table, &NotCompared::name) != report.not_compared.end();
    return !chosen || doubt.kind == state::DoubtKind::outside || own_.contains(doubt.id);
  });
  return doubts;
}

std::vector<state::Doubt> prove(Options options, const std::stop_token& stop) {
  auto target = pg::open_control(options.stream.target, "doubts");
  const auto open = [&] {
    auto doubts = state::load_doubts(*target, options.names.name);
    std::erase_if(doubts, [](const auto& doubt) { return doubt.kind == state::DoubtKind::outside; });
    return doubts;
  };
  const auto differing = [](const auto& doubt) { return doubt.kind == state::DoubtKind::differs; };
  auto doubts = open();
  if (doubts.empty() || std::ranges::any_of(doubts, differing)) return doubts;
  options.repair = false;
  options.where.clear();
  options.sample_percent = 100;
  options.filter = {};
  for (const auto& doubt : doubts) options.filter.include_tables.push_back(doubt.table.quoted());
  log::info("comparing {}, which DDL has put in doubt", fmt::join(options.filter.include_tables, ", "));
  target.reset();
  run(options, stop);
  target = pg::open_control(options.stream.target, "doubts");
  return open();
}

}  // namespace pgbaton::verify
