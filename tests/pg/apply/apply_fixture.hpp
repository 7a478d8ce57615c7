// A target server with schema pgbaton and one replica's progress row; tables described from its catalog; appliers.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pgbaton/apply/applier.hpp>
#include <pgbaton/copy/finalize.hpp>
#include <pgbaton/state/store.hpp>

#include "support/cluster.hpp"
#include "unit/apply/change_builder.hpp"

namespace pgbaton::testing {

class ApplyTest : public ::testing::Test {
 protected:
  explicit ApplyTest(const ClusterOptions& target = {}) : cluster_(target) {}
  void SetUp() override {
    control_ = pg::open_control(endpoint(), "test");
    state::Store(*control_).install();
    db().exec(
        "insert into pgbaton.progress (replica, generation, applier_number, applier_count, epoch, applied_lsn) "
        "values ('r', 'g', 0, 1, 7, '0/1')");
  }

  Cluster& target() { return cluster_; }
  Session& db() { return session_; }
  pg::Endpoint endpoint(const std::string& user = "postgres") {
    return {Side::target, cluster_.conninfo("postgres", user), "r"};
  }

  // The table as the catalog has it (public schema), without the guard column, whose presence sets the guard mode.
  apply::TargetTable describe(const std::string& name, const std::vector<std::string>& key = {});
  // Adds the guard column first, stamped 0/1.
  apply::TargetTable guarded(const std::string& name, const std::vector<std::string>& key) {
    db().exec("alter table " + pgbaton::quote_identifier(name) + " add _pgbaton_lsn pg_lsn not null default '0/1'");
    return describe(name, key);
  }

  // Makes a ledger instead.
  apply::TargetTable ledgered(const std::string& name, const std::vector<std::string>& key) {
    apply::TargetTable table = describe(name, key);
    auto source = *catalog::load_table(*control_, table.name);
    source.identity = catalog::Identity::index;
    source.identity_columns = key;
    state::TableState state;
    state.name = table.name;
    EXPECT_TRUE(copy::add_ledger(*control_, "r", source, state));
    table.guard = apply::GuardMode::ledger;
    table.ledger = QualifiedName{"pgbaton", state.ledger}.quoted();
    return table;
  }
  pg::Control& control() { return *control_; }

  apply::ApplierOptions options(apply::Strategy strategy = apply::Strategy::batch) const {
    apply::ApplierOptions options;
    options.replica = "r";
    options.generation = "g";
    options.epoch = 7;
    options.strategy = strategy;
    return options;
  }
  std::unique_ptr<apply::Applier> applier(apply::Strategy strategy = apply::Strategy::batch) {
    return std::make_unique<apply::Applier>(pg::Connection::open(endpoint(), "apply"), options(strategy));
  }
  // One window in one transaction; the commit LSN of the last change is the position.
  static void apply_all(apply::Applier& applier, const ChangeLog& log) {
    applier.begin();
    applier.apply(log.all());
    applier.commit(log.all().back().commit_lsn, 0, 1);
  }
  // The same for changes that are older than what was applied before: progress never goes back.
  static void apply_late(apply::Applier& applier, const ChangeLog& log) {
    applier.begin();
    applier.apply(log.all());
    applier.commit(Lsn{1u << 20}, 0, 1);
  }
  // The error that a window meets; the transaction is rolled back.
  static Error refusal(apply::Applier& applier, const ChangeLog& log) {
    try {
      applier.begin();
      applier.apply(log.all());
    } catch (const Error& error) {
      applier.rollback();
      return error;
    }
    applier.rollback();
    ADD_FAILURE() << "nothing was refused";
    return Error(ErrorKind::failed, "");
  }
  // Rows of a query as "a|b|∅", one per element.
  std::vector<std::string> rows(const std::string& query);

 private:
  Cluster cluster_;
  Session session_ = cluster_.session();
  std::unique_ptr<pg::Control> control_;
};

inline apply::TargetTable ApplyTest::describe(const std::string& name, const std::vector<std::string>& key) {
  apply::TargetTable table;
  table.name = {"public", name};
  table.quoted = table.name.quoted();
  table.guard = apply::GuardMode::none;
  const Rows columns = db().query(
      "set search_path = ''; select attname, format_type(atttypid, -1), typcategory = 'A', attidentity = 'a', "
      "atttypid in (20, 21, 23), atttypid not in ('json'::regtype, 'xml'::regtype, 'point'::regtype), "
      "(select format('OPERATOR(%I.=)', n.nspname) from pg_operator o join pg_namespace n on n.oid = o.oprnamespace "
      "where o.oprname = '=' and o.oprleft = coalesce(nullif(t.typbasetype, 0), t.oid) and o.oprleft = o.oprright) "
      "from pg_attribute a join pg_type t on t.oid = atttypid where attrelid = " +
      quote_literal(table.quoted) +
      "::regclass and attnum > 0 and not attisdropped and attgenerated = '' order by attnum");
  db().exec("reset search_path");
  for (const Row& row : columns) {
    if (*row[0] == "_pgbaton_lsn") {
      table.guard = apply::GuardMode::column;
      continue;
    }
    apply::TargetColumn column;
    column.name = *row[0];
    column.quoted = pgbaton::quote_identifier(column.name);
    column.cast_type = *row[1];
    column.type_is_array = row[2] == "t";
    column.identity_always = row[3] == "t";
    column.type_is_integer = row[4] == "t";
    column.has_equality = row[5] == "t";
    if (row[6]) column.equals = *row[6];
    column.is_key = std::find(key.begin(), key.end(), column.name) != key.end();
    if (column.is_key) table.key.push_back(table.columns.size());
    table.columns.push_back(column);
  }
  table.key_is_arbiter = !table.key.empty();
  table.old_rows_are_full = table.key.empty();
  return table;
}

inline std::vector<std::string> ApplyTest::rows(const std::string& query) {
  std::vector<std::string> result;
  for (const Row& row : db().query(query)) {
    std::string text;
    for (const Value& value : row) text += (&value == &row.front() ? "" : "|") + value.value_or("∅");
    result.push_back(text);
  }
  return result;
}

}  // namespace pgbaton::testing
