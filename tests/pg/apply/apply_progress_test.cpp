// Progress is part of the data, and only the writer in office writes it.
#include <future>

#include "apply_fixture.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ProgressTest : public ApplyTest {
 protected:
  void SetUp() override {
    ApplyTest::SetUp();
    db().exec("create table t (id int primary key, v text)");
    table_ = guarded("t", {"id"});
  }
  apply::TargetTable table_;
  ChangeLog log_;
};

TEST_F(ProgressTest, CommitsWithTheRows) {
  const auto applier = this->applier();
  log_.insert(table_, 16, {1, "a"});
  log_.insert(table_, 32, {2, "b"});
  applier->begin();
  EXPECT_TRUE(applier->in_transaction());
  applier->apply(log_.all());
  EXPECT_EQ(db().number("select count(*) from t"), 0);
  applier->commit(Lsn{48}, 1'000'000, 2);
  EXPECT_FALSE(applier->in_transaction());
  EXPECT_THAT(
      rows("select applied_lsn, transactions, changes, source_commit_time at time zone 'UTC' from pgbaton.progress"),
      ElementsAre("0/30|2|2|2000-01-01 00:00:01"));
  // A pure position: no rows, the time stays.
  applier->begin();
  applier->commit(Lsn{64}, 0, 0);
  EXPECT_THAT(rows("select applied_lsn, transactions, changes, source_commit_time is not null from pgbaton.progress"),
              ElementsAre("0/40|2|2|t"));
  EXPECT_EQ(applier->counters().target_transactions, 2);
  EXPECT_EQ(applier->counters().rows_written, 2);
}

TEST_F(ProgressTest, RolledBackLeavesNothing) {
  const auto applier = this->applier();
  log_.insert(table_, 16, {1, "a"});
  applier->begin();
  applier->apply(log_.all());
  applier->rollback();
  EXPECT_EQ(db().number("select count(*) from t"), 0);
  apply_all(*applier, log_);
  EXPECT_EQ(db().number("select count(*) from t"), 1);
}

TEST_F(ProgressTest, AStaleEpochCommitsNothing) {
  const auto applier = this->applier();
  log_.insert(table_, 16, {1, "a"});
  applier->begin();
  applier->apply(log_.all());
  db().exec("update pgbaton.progress set epoch = 8");
  try {
    applier->commit(Lsn{32}, 0, 1);
    FAIL() << "committed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::held_elsewhere);
    EXPECT_THAT(error.message(), HasSubstr("fenced"));
    EXPECT_FALSE(error.hint().empty());
  }
  EXPECT_FALSE(applier->in_transaction());
  EXPECT_EQ(db().number("select count(*) from t"), 0);
}

// The housekeeper of the same process waits for the row then, and the process for the housekeeper: it stood still for
// ever (a resync that took tables out of the stream at the moment of a commit).
TEST_F(ProgressTest, ACommitThatWaitedForTheRowInVainLeavesItUnlocked) {
  const auto applier = this->applier();
  log_.insert(table_, 16, {1, "a"});
  applier->begin();
  applier->apply(log_.all());
  auto resync = target().session();
  resync.exec("begin; update pgbaton.progress set tables_version = tables_version + 1");
  auto committed = std::async(std::launch::async, [&applier] { applier->commit(Lsn{32}, 0, 1); });
  ASSERT_TRUE(target().wait_until(
      "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like 'UPDATE pgbaton.progress%'",
      "1"));
  resync.exec("commit");
  try {
    committed.get();
    FAIL() << "committed";
  } catch (const Error& error) {
    EXPECT_EQ(error.sqlstate(), apply::kTablesChanged);
  }
  db().exec("set lock_timeout = '2s'; update pgbaton.progress set report = null");
  EXPECT_FALSE(applier->in_transaction());
  EXPECT_EQ(db().number("select count(*) from t"), 0);
}

TEST_F(ProgressTest, NeverGoesBackward) {
  const auto applier = this->applier();
  applier->begin();
  applier->commit(Lsn{64}, 0, 0);
  applier->begin();
  try {
    applier->commit(Lsn{48}, 0, 0);
    FAIL() << "committed";
  } catch (const Error& error) {
    EXPECT_EQ(error.action(), Action::bug);
  }
  applier->rollback();
  EXPECT_EQ(db().scalar("select applied_lsn from pgbaton.progress"), "0/40");
}

TEST_F(ProgressTest, TheReplicaRoleIsRefusedInPreflight) {
  db().exec("create role plain login; grant usage on schema pgbaton to plain");
  try {
    apply::Applier refused(pg::Connection::open(endpoint("plain"), "apply"), options());
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::preflight);
    EXPECT_THAT(error.message(), HasSubstr("session_replication_role"));
  }
  auto without = options();
  without.replica_role = false;
  apply::Applier allowed(pg::Connection::open(endpoint("plain"), "apply"), without);
}

TEST_F(ProgressTest, TriggersAndForeignKeysRestUnderTheReplicaRole) {
  db().exec(
      "create function boom() returns trigger language plpgsql as $$ begin raise 'fired'; end $$;"
      "create trigger b before insert on t for each row execute function boom();"
      "create table parent (id int primary key); alter table t add foreign key (id) references parent");
  log_.insert(table_, 16, {1, "a"});
  apply_all(*applier(), log_);
  EXPECT_EQ(db().number("select count(*) from t"), 1);
}

TEST_F(ProgressTest, ALockWaitIsRetriedNotRejected) {
  auto impatient = options();
  impatient.lock_timeout = "100ms";
  apply::Applier applier(pg::Connection::open(endpoint(), "apply"), impatient);
  auto blocker = target().session();
  blocker.exec("insert into t values (1, 'a', '0/1')");
  blocker.exec("begin; lock table t");
  log_.update(table_, 16, {1, "b"});
  const Error error = refusal(applier, log_);
  EXPECT_EQ(error.sqlstate(), "55P03");
  EXPECT_EQ(error.action(), Action::retry);
  blocker.exec("rollback");
  apply_all(applier, log_);
}

}  // namespace
}  // namespace pgbaton::testing
