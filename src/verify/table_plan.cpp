#include "table_plan.hpp"

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/catalog/choice.hpp>
#include <pgbaton/catalog/relation.hpp>

#include <algorithm>
#include <bit>
#include <map>
#include <set>

namespace pgbaton::verify {
namespace {

// Rows in a bucket: few enough that looking at all of a differing bucket costs little. The server groups by them, which
// takes half of the time again when they do not fit into its cache (8192 buckets: 0.52 s for a million rows, 1024:
// 0.33).
constexpr double kRowsPerBucket = 512, kRowsPerBucketOfLarge = 16384;
constexpr double kCachedBuckets = 1024, kMostBuckets = 1 << 16;
// A guess where ANALYZE has not run.
constexpr double kRowsPerBlock = 50;
constexpr int kSampleParts = 10'000;

bool is_compared(const catalog::Column& column) {
  return column.generated == ' ' && column.carried && column.name != kGuardColumn;
}

Error drift(const catalog::Table& table, const std::string& what) {
  return Error(ErrorKind::rejected, what)
      .side(Side::target)
      .table(table.name.quoted())
      .hint(
          "The target's schema is not the source's any more: bring it in line, or leave the table out with "
          "--exclude-table.");
}

std::int64_t bucket_mask(const catalog::Table& table) {
  const double rows =
      table.estimated_rows >= 0 ? table.estimated_rows : static_cast<double>(table.heap_blocks) * kRowsPerBlock;
  const double most = std::clamp(rows / kRowsPerBucketOfLarge, kCachedBuckets, kMostBuckets);
  const auto wanted = static_cast<std::uint64_t>(std::clamp(rows / kRowsPerBucket, 1.0, most));
  return static_cast<std::int64_t>(std::bit_ceil(wanted) - 1);
}

// What finds a row on both sides: the identity that the stream uses, else any unique key.
std::vector<std::string> key_names(const catalog::Table& table) {
  if (table.identity == catalog::Identity::index && !table.identity_columns.empty()) return table.identity_columns;
  return table.unique_keys.empty() ? std::vector<std::string>{} : table.unique_keys.front();
}

void match_columns(TablePlan& plan) {
  auto& [source, target] = plan.sides;
  for (const auto& column : source.table.columns) {
    if (!is_compared(column)) continue;
    const auto* other = target.table.find_column(column.name);
    if (other == nullptr)
      throw drift(source.table, fmt::format("the target has no column {}", quote_identifier(column.name)));
    source.columns.push_back(&column);
    target.columns.push_back(other);
  }
  plan.guarded = target.table.has_guard_column;
  const auto theirs = std::ranges::count_if(target.table.columns, is_compared);
  plan.target_has_more_columns = static_cast<std::size_t>(theirs) > target.columns.size();
}

void match_key(TablePlan& plan) {
  const auto& columns = plan.sides[0].columns;
  for (const auto& name : key_names(plan.sides[0].table)) {
    const auto found = std::ranges::find(columns, name, [](const auto* column) { return column->name; });
    if (found == columns.end()) return plan.key.clear();  // a generated column is in it
    plan.key.push_back(static_cast<std::size_t>(found - columns.begin()));
  }
}

void write_expressions(TablePlan& plan, HashStyle style, std::uint32_t seed) {
  for (auto& side : plan.sides) {
    side.from = (side.table.kind == 'p' ? "" : "ONLY ") + side.table.name.quoted();
    std::vector<std::string> of_key;
    for (std::size_t i = 0; i < side.columns.size(); ++i) {
      const bool same_type = plan.sides[0].columns[i]->type == plan.sides[1].columns[i]->type;
      side.column_hashes.push_back(column_hash(*side.columns[i], same_type, i, style));
      if (std::ranges::find(plan.key, i) != plan.key.end()) of_key.push_back(side.column_hashes.back());
    }
    side.row_hash = combine(side.column_hashes, 0, style);
    side.key_hash = combine(plan.key.empty() ? side.column_hashes : of_key, seed, style);
  }
}

// Its rows are still to come, so nothing is known of them; a table that is never copied waits for nothing.
bool pending(const state::TableState& state) {
  return state.detached || state.phase < state::TablePhase::copied;
}

// What is known of it by itself; "" when it is to be compared.
std::string reason_against(const state::TableState& state, const catalog::Table* source) {
  if (state.detached) return "being copied again (resync)";
  if (state.phase == state::TablePhase::skipped) return state.note.empty() ? "not copied" : state.note;
  if (state.phase < state::TablePhase::copied)
    return fmt::format("its copy is not complete (phase {})", to_string(state.phase));
  if (source == nullptr) return "dropped on the source";
  if (source->persistence == 'u') return "unlogged: its changes are in no WAL";
  return {};
}

using Relations = std::map<catalog::Oid, catalog::Relation>;

Relations relations_of(pg::Control& source, const std::vector<state::TableState>& states) {
  std::vector<catalog::Oid> oids;
  for (const auto& state : states)
    if (state.source_oid != 0) oids.push_back(state.source_oid);
  return catalog::load_relations(source, oids);
}

// Why what the source calls so, if anything, is not the table that is meant; "" when it is, or nothing is meant.
std::string another_table(const state::TableState& state, const catalog::Table* named, const Relations& relations) {
  if (state.source_oid == 0 || (named != nullptr && named->oid == state.source_oid)) return {};
  const auto now = relations.find(state.source_oid);
  if (now == relations.end()) return named == nullptr ? "" : "dropped and made again on the source";
  if (now->second.name != state.name) return "called " + now->second.name.quoted() + " on the source";
  return "no table of its own any more on the source, but a view or a member of an extension";
}

// Whether a recorded table is compared; noted in `plans` when it is not.
bool is_left_out(const state::TableState& state, const catalog::Table* source, const Relations& relations,
                 Plans& plans) {
  const bool is_pending = pending(state);
  auto reason = is_pending || state.phase == state::TablePhase::skipped ? "" : another_table(state, source, relations);
  if (!reason.empty())
    plans.others.push_back(state.name);
  else
    reason = reason_against(state, source);
  if (reason.empty()) return false;
  plans.not_compared.push_back({state.name, std::move(reason), is_pending});
  return true;
}

// What the replica was begun with; tables that are gone by now are said elsewhere.
void mark_choices(std::vector<catalog::Table>& tables, const state::Replica& replica) {
  auto choices = catalog::recorded_choices(replica.options);
  std::erase_if(choices, [&](const catalog::TableChoice& choice) {
    return std::ranges::find(tables, parse_qualified_name(choice.name), &catalog::Table::name) == tables.end();
  });
  catalog::apply_choices(tables, choices);
}

using ByName = std::map<QualifiedName, catalog::Table>;

ByName by_name(std::vector<catalog::Table> tables) {
  ByName result;
  for (auto& table : tables) {
    auto name = table.name;
    result.emplace(std::move(name), std::move(table));
  }
  return result;
}

}  // namespace

std::string in_filter(const SidePlan& side) {
  return side.row_filter.empty() ? "" : catalog::bracketed(side.row_filter);
}

std::string TablePlan::rows(Where where, const std::string& what, const std::string& range) const {
  const auto& plan = side(where);
  std::string conditions;
  for (const auto& text : {range, condition.empty() ? "" : "(" + condition + "\n)", in_filter(plan)})
    if (!text.empty()) conditions += (conditions.empty() ? " WHERE " : " AND ") + text;
  return fmt::format("SELECT {} AS kh, {} FROM {}{}", plan.key_hash, what, plan.from, conditions);
}

void require_choice(const catalog::TableFilter& filter, const state::Replica& replica,
                    const std::vector<state::TableState>& states, pg::Control& source) {
  if (filter.empty()) return;
  const auto here = catalog::load_tables(source, {}, Side::source);
  const auto chooses_one = [&](const catalog::TableFilter& choice) {
    return std::ranges::any_of(catalog::apply_filter(here, choice), [&](const auto& table) {
      return std::ranges::find(states, table.name, &state::TableState::name) != states.end();
    });
  };
  const auto refuse = [&](const char* option, const std::string& pattern) {
    throw Error(ErrorKind::usage,
                fmt::format("{}: replica {} has no table that \"{}\" names", option, replica.name, pattern))
        .hint("`pgbaton status` lists those that it has; `pgbaton resync --add` takes new ones in.");
  };
  for (const auto& pattern : filter.include_tables)
    if (!chooses_one({.include_tables = {pattern}})) refuse("--include-table", pattern);
  for (const auto& pattern : filter.include_schemas)
    if (!chooses_one({.include_schemas = {pattern}})) refuse("--include-schema", pattern);
  if (!chooses_one(filter))
    throw Error(ErrorKind::usage, "the options leave no table of the replica to compare")
        .hint("Choose less with --exclude-table and --exclude-schema.");
}

Plans plan_tables(const Options& options, const state::Replica& replica, const std::vector<state::TableState>& states,
                  const std::vector<QualifiedName>& only, pg::Control& source, pg::Control& target, HashStyle style,
                  std::uint32_t seed) {
  auto here = catalog::load_tables(source, {}, Side::source);
  std::set<QualifiedName> chosen;
  for (const auto& table : catalog::apply_filter(here, options.filter)) chosen.insert(table.name);
  mark_choices(here, replica);
  const auto sources = by_name(std::move(here)), targets = by_name(catalog::load_tables(target, {}, Side::target));
  const auto relations = relations_of(source, states);
  const bool filtered = !options.filter.empty();

  Plans plans;
  for (const auto& state : states) {
    const auto found = sources.find(state.name);
    const auto* table = found == sources.end() ? nullptr : &found->second;
    if ((filtered || table != nullptr) && !chosen.contains(state.name)) continue;
    if (!only.empty() && std::ranges::find(only, state.name) == only.end()) continue;
    if (table != nullptr && table->kind == 'p') continue;  // its rows are those of its partitions
    if (is_left_out(state, table, relations, plans)) continue;
    const auto other = targets.find(state.name);
    if (other == targets.end()) throw drift(*table, "the target has no such table");
    auto& plan = plans.tables.emplace_back();
    plan.name = state.name;
    plan.sides[0].table = *table;
    plan.sides[1].table = other->second;
    plan.sides[0].row_filter = table->row_filter;
    plan.bucket_mask = bucket_mask(*table);
    plan.condition = options.where;
    if (options.sample_percent < 100)
      plan.sample =
          fmt::format("(kh & 2147483647) % {} < {}", kSampleParts, options.sample_percent * kSampleParts / 100);
  }
  // After the vector has stopped growing: columns are pointed at.
  for (auto& plan : plans.tables) {
    match_columns(plan);
    match_key(plan);
    write_expressions(plan, style, seed);
  }
  return plans;
}

}  // namespace pgbaton::verify
