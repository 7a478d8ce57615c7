#include "drift.hpp"

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/catalog/shape.hpp>

#include <algorithm>
#include <iterator>
#include <optional>

namespace pgbaton::stream {
namespace {

using catalog::add_column;
using catalog::ColumnOrigin;

// One difference with what is to be done about it.
struct Remedy {
  std::string text, statement, afterwards = {};
  std::optional<ColumnOrigin> addable = std::nullopt;  // the stream can add this column by itself
};

std::string type_name(pg::Control& source, wire::Oid type_oid, std::int32_t modifier) {
  return pg::control(Side::source, "reading the name of a type", [&] {
    pqxx::nontransaction tx(source);
    return tx.exec_params1("select pg_catalog.format_type($1::oid, $2)", type_oid, modifier)[0].as<std::string>();
  });
}

bool type_exists(pg::Control& target, const std::string& type) {
  return pg::control(Side::target, "looking for a type", [&] {
    pqxx::nontransaction tx(target);
    return tx.exec_params1("select pg_catalog.to_regtype($1) is not null", type)[0].as<bool>();
  });
}

class Judge {
 public:
  Judge(const DriftPolicy& policy, wire::Oid source_oid, const state::TableState& state, pg::Control& target,
        const catalog::Table& table)
      : policy_(policy),
        state_(state),
        target_(target),
        table_(table),
        origins_(catalog::load_origins(policy.source(), source_oid, state.source_shape)) {
    auto tables = catalog::load_tables(policy.source(), {source_oid});
    if (!tables.empty()) now_ = std::move(tables.front());
    if (!origins_) return;
    // Where the source's ancestor is none of the target's, the table's columns are its own.
    for (auto& column : origins_->columns)
      if (column.defined_at == origins_->name || !catalog::load_table(target, column.defined_at, Side::target))
        column.defined_at = table.name;
  }

  // Sent before the column became what it is now on both sides: its text is taken over as the new type reads it.
  bool is_of_before(const Difference& difference) const {
    if (difference.kind != Misfit::type) return false;
    const auto* now = origin(difference.column);
    const auto& type = table_.find_column(difference.column)->full_type;
    if (now == nullptr || (now->type != type && !now->type.starts_with(type + " COLLATE "))) return false;
    log::warning("{}: changes from before column {} became {} are applied to it", table_.name.quoted(),
                 quote_identifier(difference.column), type);
    return true;
  }

  // Renames first: the name that one gives up may be another column's now.
  std::vector<Remedy> remedies(const std::vector<Difference>& differences) {
    for (const auto& difference : differences)
      if (difference.kind == Misfit::missing) note_rename(difference.column);
    std::vector<Remedy> renames, others;
    for (const auto& difference : differences) {
      const bool was_renamed = std::ranges::find(renamed_, difference.column) != renamed_.end();
      if (was_renamed && difference.kind == Misfit::not_sent) continue;
      if (difference.kind == Misfit::missing && !former_name(difference.column).empty())
        renames.push_back(remedy(difference));
      else
        others.push_back(was_renamed ? missing(difference) : remedy(difference));
    }
    // Columns that exchanged their names have one remedy.
    for (std::size_t i = 0; i < others.size(); ++i)
      for (std::size_t j = i + 1; j < others.size(); ++j)
        if (others[i].statement == others[j].statement) {
          others[i].text += "; " + others[j].text;
          others.erase(others.begin() + static_cast<std::ptrdiff_t>(j--));
        }
    std::ranges::move(others, std::back_inserter(renames));
    return renames;
  }

 private:
  const ColumnOrigin* origin(std::string_view column) const { return origins_ ? origins_->find(column) : nullptr; }

  // The target's column that the source now calls `column`; "" when it is none, or not known to be one.
  std::string former_name(const std::string& column) const {
    const auto* now = origin(column);
    if (now == nullptr || now->recorded_name.empty() || now->recorded_name == column) return {};
    return table_.find_column(now->recorded_name) != nullptr ? now->recorded_name : std::string();
  }
  void note_rename(const std::string& column) {
    if (auto former = former_name(column); !former.empty()) renamed_.push_back(std::move(former));
  }

  std::string alter(const std::string& column, std::string_view what) const {
    return fmt::format("ALTER TABLE {} ALTER COLUMN {} {}", tree(column), quote_identifier(column), what);
  }
  // Columns of a partition or a child are altered where they are defined.
  std::string tree(const std::string& column) const {
    const auto* now = origin(column);
    return now == nullptr ? table_.name.quoted() : now->defined_at.quoted();
  }

  Remedy remedy(const Difference& difference) {
    const auto& column = difference.column;
    switch (difference.kind) {
      case Misfit::missing:
        return missing(difference);
      case Misfit::generated:
        return {difference.text, alter(column, "DROP EXPRESSION")};
      case Misfit::not_sent:
        return {difference.text, alter(column, "DROP NOT NULL")};
      case Misfit::type: {
        const auto type = type_name(policy_.source(), difference.type_oid, difference.type_modifier);
        const auto text = fmt::format("column {} is {} on the source and {} on the target", quote_identifier(column),
                                      type, table_.find_column(column)->full_type);
        return retyped(text, column, type);
      }
    }
    return {};
  }

  Remedy retyped(const std::string& text, const std::string& column, const std::string& type) {
    const auto* now = origin(column);
    // What the source has today may be another column, or of another type again.
    if (now == nullptr || (now->type != type && !now->type.starts_with(type + " COLLATE ")))
      return {text, alter(column, fmt::format("TYPE {0} USING {1}::{0}", type, quote_identifier(column)))};
    const auto how = catalog::retype(*origins_, *now, table_, now->defined_at);
    return {text, how.statements.substr(0, how.statements.size() - 2),
            how.casts ? "where values could not be cast and became others (USING NULL), or the source used another "
                        "expression, pgbaton resync of the table"
                      : ""};
  }

  Remedy missing(const Difference& difference) {
    const auto& column = difference.column;
    const auto quoted = quote_identifier(column);
    if (const auto former = former_name(column); !former.empty())
      return {fmt::format("column {} was renamed to {} on the source", quote_identifier(former), quoted),
              fmt::format("ALTER TABLE {} RENAME COLUMN {} TO {}", tree(column), quote_identifier(former), quoted)};
    const auto type = type_name(policy_.source(), difference.type_oid, difference.type_modifier);
    const auto* now = origin(column);
    // What the source has under this name today may be another column than the one that is sent.
    const bool same = now != nullptr && (now->type == type || now->type.starts_with(type + " COLLATE "));
    const auto plain = fmt::format("ALTER TABLE {} ADD COLUMN {} {}", table_.name.quoted(), quoted, type);
    if (!same)
      return {fmt::format("column {} ({}) is missing on the target, and the source has no such column any more", quoted,
                          type),
              plain};
    if (state_.source_shape.empty() || !now->recorded_name.empty())
      return {fmt::format("column {} ({}) is missing on the target; whether it is new or was renamed is not known",
                          quoted, type),
              add_column(*now, false).statement + " (or RENAME COLUMN, if it was renamed)"};
    const auto recorded = catalog::parse_shape(state_.source_shape);
    if (recorded && now_ && catalog::has_gap_below(*recorded, *now_, now->number))
      return {
          fmt::format("column {} ({}) is missing on the target, and the source has added and dropped columns since: "
                      "rows may be sent with the values of a former column of this name",
                      quoted, type),
          plain + "; -- and when the stream has caught up, pgbaton verify --repair"};
    if (!type_exists(target_, type))
      return {fmt::format("column {} is new, and its type {} is missing on the target", quoted, type),
              fmt::format("CREATE TYPE {} …, then {}", type, add_column(*now, false).statement)};
    if (!now->old_value)
      return {fmt::format("column {} ({}) is new, and each row that was there may hold another value in it (a volatile "
                          "default, or a rewrite of the table)",
                          quoted, type),
              add_column(*now, false).statement + ", then fill it from the source"};
    const auto note = now->not_null && *now->old_value == "NULL" ? " (NOT NULL on the source)" : "";
    auto addition = add_column(*now, false);
    return {fmt::format("column {} ({}) is new on the source{}", quoted, type, note), addition.statement,
            addition.afterwards, *now};
  }

  const DriftPolicy& policy_;
  const state::TableState& state_;
  pg::Control& target_;
  const catalog::Table& table_;
  std::optional<catalog::Origins> origins_;
  std::optional<catalog::Table> now_;  // on the source
  std::vector<std::string> renamed_;   // former names
};

[[noreturn]] void stop(const DriftPolicy& policy, pg::Control& target, const catalog::Table& table,
                       const std::vector<Remedy>& remedies, Lsn commit_lsn) {
  std::string texts, statements, afterwards;
  for (const auto& remedy : remedies) {
    log::warning("{}: {}; on the target: {}", table.name.quoted(), remedy.text, remedy.statement);
    texts += (texts.empty() ? "" : "; ") + remedy.text;
    statements += remedy.statement + "; ";
    if (!remedy.afterwards.empty()) afterwards += (afterwards.empty() ? "" : "; ") + remedy.afterwards;
  }
  state::Store(target).tell_event(policy.replica, "drift",
                                  {{"table", table.name.quoted()},
                                   {"commit_lsn", to_string(commit_lsn)},
                                   {"message", texts},
                                   {"statement", statements}});
  throw Error(ErrorKind::rejected, "the table's shape changed on the source: " + texts)
      .side(Side::target)
      .table(table.name.quoted())
      .lsn(commit_lsn)
      .hint("On the target run: " + statements + "then run the same command again; nothing is lost meanwhile." +
            (afterwards.empty() ? "" : " When it has gone on: " + afterwards + "."));
}

// Adds the column and keeps the record of it, in the transaction of the first row that has it.
std::string definition(const DriftPolicy& policy, const state::TableState& state, const ColumnOrigin& column) {
  const auto addition = add_column(column, true);
  const auto sql = addition.afterwards.empty() ? addition.statement : addition.statement + "; " + addition.afterwards;
  const auto owner = fmt::format("replica = {} and generation = {} and schema_name = {} and table_name = {}",
                                 quote_literal(policy.replica), quote_literal(policy.generation),
                                 quote_literal(state.name.schema), quote_literal(state.name.name));
  return fmt::format(
      "{0}; update pgbaton.table_state set source_shape = jsonb_set(source_shape::jsonb, '{{columns,{1}}}', "
      "to_jsonb({2}::text))::json where {3}; insert into pgbaton.event (replica, kind, detail) select {4}, "
      "'column_added', json_build_object('table', {5}, 'column', {2}, 'statement', {6});",
      sql, column.number, quote_literal(column.name), owner, quote_literal(policy.replica),
      quote_literal(state.name.quoted()), quote_literal(sql));
}

}  // namespace

Mending mend(const DriftPolicy& policy, const SourceRelation& relation, const state::TableState& state,
             pg::Control& target, const catalog::Table& table, std::vector<Difference> differences, Lsn commit_lsn) {
  Judge judge(policy, relation.oid, state, target, table);
  std::erase_if(differences, [&](const Difference& difference) { return judge.is_of_before(difference); });
  if (differences.empty()) return {};
  const auto remedies = judge.remedies(differences);
  const bool all = std::ranges::all_of(remedies, [](const Remedy& remedy) { return remedy.addable.has_value(); });
  if (!policy.add_columns || !all) stop(policy, target, table, remedies, commit_lsn);
  const auto tables = catalog::load_tables(policy.source(), {relation.oid});
  Mending mending;
  for (const auto& remedy : remedies) {
    const auto* column = tables.empty() ? nullptr : tables.front().find_column(remedy.addable->name);
    if (column == nullptr) stop(policy, target, table, remedies, commit_lsn);  // dropped this very moment
    mending.added.push_back(*column);
    mending.statements += definition(policy, state, *remedy.addable);
    log::warning("{}: {}; adding it: {}", table.name.quoted(), remedy.text, remedy.statement);
  }
  return mending;
}

}  // namespace pgbaton::stream
