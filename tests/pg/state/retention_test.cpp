// Tombstones and ledger entries go by position only. One that goes too early resurrects rows without a word, so every
// road to it is tried here.
#include "../apply/apply_fixture.hpp"

#include <pgbaton/embedded_sql.hpp>
#include <pgbaton/state/retention.hpp>

namespace pgbaton::testing {
namespace {

using apply::Delivery;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RetentionTest : public ApplyTest {
 protected:
  void SetUp() override {
    ApplyTest::SetUp();
    db().exec(
        "insert into pgbaton.replica (name, generation, source_system_id, source_timeline, source_database, slot, "
        "publication, phase, epoch) values ('r', 'g', 1, 1, 's', 'pgbaton', 'pgbaton', 'ready', 7); "
        "update pgbaton.progress set applied_lsn = '0/64'");
    replica_.name = "r";
    replica_.generation = "g";
    replica_.epoch = 7;
    db().exec("create table c (id int primary key, v text); create table l (id int primary key, v text)");
    column_ = guarded("c", {"id"});
    ledger_ = ledgered("l", {"id"});
    column_.delivery = ledger_.delivery = Delivery::any_order;
    state::TableState with_ledger;
    with_ledger.name = ledger_.name;
    with_ledger.ledger = ledger_.ledger.substr(ledger_.ledger.find('.') + 2);
    with_ledger.ledger.pop_back();
    tables_ = {with_ledger};
    ChangeLog log;
    for (unsigned lsn : {20u, 40u, 60u, 80u})
      for (const auto* table : {&column_, &ledger_}) log.remove(*table, lsn, {static_cast<int>(lsn), kNull});
    auto applier = this->applier();
    applier->begin();
    applier->apply(log.all());
    applier->commit(Lsn{100}, 0, 1);
  }
  state::Store store() { return state::Store(control()); }
  std::vector<std::string> stones() {
    return rows("select commit_lsn from pgbaton.tombstone union all select commit_lsn from " + ledger_.ledger +
                " order by 1");
  }
  std::string sql_refusal(const std::string& sql) {
    try {
      db().exec(sql);
    } catch (const SqlError& error) {
      return error.what();
    }
    return "";
  }
  state::Replica replica_;
  apply::TargetTable column_, ledger_;
  std::vector<state::TableState> tables_;
};

TEST_F(RetentionTest, WhatIsBelowGoesInSmallBatches) {
  auto store = this->store();
  auto expiry = store.expire(replica_, tables_, Lsn{50}, 1);
  EXPECT_EQ(expiry.expired_lsn, Lsn{50});
  EXPECT_EQ(expiry.removed, 2);
  EXPECT_TRUE(expiry.more);
  store.expire(replica_, tables_, Lsn{50}, 1);
  expiry = store.expire(replica_, tables_, Lsn{30}, 1);  // never back
  EXPECT_EQ(expiry.expired_lsn, Lsn{50});
  EXPECT_FALSE(expiry.more);
  EXPECT_THAT(stones(), ElementsAre("0/3C", "0/3C", "0/50", "0/50"));
  EXPECT_EQ(store.load_guard_sizes("r").expired_lsn, Lsn{50});
  EXPECT_EQ(store.load_guard_sizes("r").ledgers.size(), 0u);  // table_state does not know it here
}

TEST_F(RetentionTest, NothingAboveTheAppliedPositionOrAHoldCanExpire) {
  auto store = this->store();
  const auto id = store.add_hold("r", {"public", "c"}, "resync of c");
  EXPECT_EQ(store.load_holds("r").at(0).from_lsn, Lsn{});  // not yet taken up
  store.activate_hold(replica_, id, Lsn{50});
  store.activate_hold(replica_, id, Lsn{90});  // only once
  const auto holds = store.load_holds("r");
  ASSERT_EQ(holds.size(), 1u);
  EXPECT_EQ(holds[0].from_lsn, Lsn{50});
  EXPECT_EQ(state::oldest_held(holds, Lsn{70}), Lsn{50});
  EXPECT_EQ(state::oldest_held(holds, Lsn{30}), Lsn{30});
  EXPECT_EQ(store.expire(replica_, tables_, Lsn{1000}, 100).expired_lsn, Lsn{50});
  EXPECT_THAT(stones(), ElementsAre("0/3C", "0/3C", "0/50", "0/50"));
  store.limit_hold(id, Lsn{70});
  EXPECT_EQ(store.load_holds("r").at(0).until_lsn, Lsn{70});
  store.release_hold(id);
  EXPECT_THROW(store.limit_hold(id, Lsn{80}), Error);
  EXPECT_EQ(store.expire(replica_, tables_, Lsn{1000}, 100).expired_lsn, Lsn{100}) << "the applied position";
  EXPECT_THAT(stones(), IsEmpty());
  replica_.epoch = 6;
  EXPECT_THROW(store.expire(replica_, tables_, Lsn{1000}, 100), Error) << "a fenced writer expires nothing";
}

TEST_F(RetentionTest, TheServerRefusesWhatTheRecordedExpiryDoesNotCover) {
  store().expire(replica_, tables_, Lsn{30}, 100);
  EXPECT_THAT(sql_refusal("delete from pgbaton.tombstone where commit_lsn = '0/28'"),
              HasSubstr("0/28 is still needed"));
  EXPECT_THAT(sql_refusal("delete from " + ledger_.ledger),
              HasSubstr("is still needed (replica r, expired below 0/1E)"));
  EXPECT_THAT(sql_refusal("truncate pgbaton.tombstone"), HasSubstr("never truncated"));
  EXPECT_THAT(sql_refusal("truncate " + ledger_.ledger), HasSubstr("never truncated"));
  EXPECT_EQ(stones().size(), 6u);
  // A replica that goes needs them no more.
  store().delete_replica("r");
  EXPECT_EQ(db().number("select count(*) from pgbaton.tombstone"), 0);
  EXPECT_EQ(sql_refusal("delete from " + ledger_.ledger), "");
}

// The failure that silently resurrects rows: 40 was deleted, the tombstone was forced out, and its older insert comes.
TEST_F(RetentionTest, AnOlderChangeAfterAForcedExpiryIsRefusedNotApplied) {
  db().exec("update pgbaton.progress set applied_lsn = '0/1000'");
  store().expire(replica_, tables_, Lsn{70}, 100);
  for (const auto* table : {&column_, &ledger_}) {
    ChangeLog late;
    late.insert(*table, 30, {40, "resurrected"});
    const Error error = refusal(*applier(), late);
    EXPECT_EQ(error.kind(), ErrorKind::boundary_lost);
    EXPECT_THAT(error.describe(), HasSubstr("0/46 have expired"));
    EXPECT_EQ(db().number("select count(*) from " + table->quoted), 0);
    ChangeLog remembered;
    remembered.insert(*table, 75, {80, "below its tombstone"});
    apply_late(*applier(), remembered);
    EXPECT_EQ(db().number("select count(*) from " + table->quoted), 0);
  }
}

// What a tool before the ledger has left goes on with a new one, tombstones included.
TEST(LedgerMigration, AnOlderSchemaKeepsWhatItHolds) {
  Cluster cluster;
  auto session = cluster.session();
  session.exec(std::string(sql::target_schema));
  session.exec(
      "insert into pgbaton.replica (name, generation, source_system_id, source_timeline, source_database, slot, "
      "publication, phase, epoch) values ('r', 'g', 1, 1, 's', 'pgbaton', 'pgbaton', 'ready', 7); "
      "insert into pgbaton.table_state (replica, generation, schema_name, table_name, source_oid, boundary, guarded, "
      "phase) values ('r', 'g', 'public', 't', 1, '0/14', true, 'done'); "
      "insert into pgbaton.tombstone values ('r', 'public', 't', '[\"1\"]', '0/20')");
  const auto control = pg::open_control({Side::target, cluster.conninfo(), "r"}, "test");
  state::Store store(*control);
  EXPECT_EQ(store.load_tables(*store.load_replica("r")).size(), 1u) << "status reads it as it is";
  EXPECT_TRUE(store.load_holds("r").empty() && store.load_guard_sizes("r").ledgers.empty());
  store.install();
  EXPECT_GT(session.number("select schema_version from pgbaton.meta"), 1);
  const auto tables = store.load_tables(*store.load_replica("r"));
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].guard, state::GuardKind::column);
  EXPECT_EQ(tables[0].boundary, Lsn{20});
  EXPECT_EQ(tables[0].ledger, "");
  EXPECT_EQ(store.load_guard_sizes("r").expired_lsn, Lsn{});
  EXPECT_THROW(session.exec("delete from pgbaton.tombstone"), SqlError);
  session.exec(
      "update pgbaton.table_state set guard = 'ledger', ledger = 'ledger_1'; create table pgbaton.ledger_1 ()");
  store.delete_replica("r");
  store.drop_schema_if_unused();
  EXPECT_EQ(session.scalar("select to_regnamespace('pgbaton')"), "");
}

}  // namespace
}  // namespace pgbaton::testing
