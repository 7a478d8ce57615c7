// S39, S40: the guard fed directly, in any order and more than once. Each case has its own keys, so that hundreds of
// orders share one transaction; every change names the state it came from, so the expected row is read off the largest
// LSN.
#include "apply_fixture.hpp"

#include <algorithm>
#include <numeric>

namespace pgbaton::testing {
namespace {

using apply::Delivery;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using apply::GuardMode;

struct Kind {
  GuardMode guard;
  int major;  // of the target
};

// Through the views `seen` (id, v, lsn) and `stones` (key, lsn) both kinds of guard look the same.
class GuardTest : public ApplyTest, public ::testing::WithParamInterface<Kind> {
 protected:
  GuardTest() : ApplyTest({.major = GetParam().major}) {}
  void SetUp() override {
    ApplyTest::SetUp();
    db().exec("create table t (id int primary key, v text)");
    table_ = has_ledger() ? ledgered("t", {"id"}) : guarded("t", {"id"});
    table_.delivery = Delivery::any_order;
    if (has_ledger())
      db().exec("create view seen as select t.id, t.v, coalesce(l.commit_lsn, '0/1') as lsn from t left join " +
                table_.ledger +
                " l on l.k1 = t.id; create view stones as select k1::text as key, commit_lsn as lsn from " +
                table_.ledger + " where deleted");
    else
      db().exec(
          "create view seen as select id, v, _pgbaton_lsn as lsn from t; "
          "create view stones as select key::json->>0 as key, commit_lsn as lsn from pgbaton.tombstone");
  }
  bool has_ledger() const { return GetParam().guard == GuardMode::ledger; }
  // A row with a guard that the change did not come through us.
  void put(int id, const std::string& v, const std::string& lsn) {
    const std::string row = std::to_string(id) + ", '" + v + "'";
    if (has_ledger())
      db().exec("insert into t values (" + row + "); insert into " + table_.ledger + " values (" + std::to_string(id) +
                ", '" + lsn + "', false)");
    else
      db().exec("insert into t values (" + row + ", '" + lsn + "')");
  }
  apply::TargetTable table_;
  ChangeLog log_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, GuardTest,
                         ::testing::Values(Kind{GuardMode::column, 15}, Kind{GuardMode::ledger, 15},
                                           Kind{GuardMode::column, 17}, Kind{GuardMode::ledger, 17}),
                         [](const auto& kind) {
                           return std::string(kind.param.guard == GuardMode::ledger ? "ledger" : "column") + "_" +
                                  std::to_string(kind.param.major);
                         });

TEST_P(GuardTest, S40_ADeleteIsNeverUndoneAndTheNewestStateStays) {
  struct Step {
    unsigned lsn;
    const char* what;
  };
  const std::vector<Step> story{{20, "create"}, {40, "update"}, {60, "delete"}};
  std::vector<std::size_t> order{0, 1, 2};
  int id = 0;
  while (std::next_permutation(order.begin(), order.end())) {  // the five that are out of order
    ++id;
    for (std::size_t i : order) {
      if (i == 0) log_.insert(table_, 20, {id, "created"});
      if (i == 1) log_.update(table_, 40, {id, "updated"});
      if (i == 2) log_.remove(table_, 60, {id, kNull});
    }
  }
  ASSERT_EQ(id, 5);
  const auto applier = this->applier();
  apply_all(*applier, log_);
  EXPECT_THAT(rows("select id, v from t"), IsEmpty());
  EXPECT_THAT(rows("select distinct lsn from stones"), ElementsAre("0/3C"));
  EXPECT_EQ(db().number("select count(*) from stones"), 5);
}

TEST_P(GuardTest, S40_TheSameWhenTheUpdateIsTheLastChange) {
  // delete 20, create 40, update 60 of a key that existed: all six orders.
  std::vector<std::size_t> order{0, 1, 2};
  int id = 0;
  do {
    ++id;
    for (std::size_t i : order) {
      if (i == 0) log_.remove(table_, 20, {id, kNull});
      if (i == 1) log_.insert(table_, 40, {id, "created"});
      if (i == 2) log_.update(table_, 60, {id, "updated"});
    }
  } while (std::next_permutation(order.begin(), order.end()));
  for (int i = 1; i <= 6; ++i) put(i, "old", "0/A");
  apply_all(*applier(), log_);
  EXPECT_THAT(rows("select count(*), min(v), max(v), min(lsn) from seen"), ElementsAre("6|updated|updated|0/3C"));
}

TEST_P(GuardTest, S39_ReplayOfADeleteLeavesTheNewerRow) {
  log_.remove(table_, 20, {1, kNull});
  log_.insert(table_, 40, {1, "new"});
  log_.remove(table_, 20, {1, kNull});
  log_.remove(table_, 30, {2, kNull});  // never copied
  log_.insert(table_, 25, {2, "late"});
  put(1, "old", "0/A");
  const auto applier = this->applier();
  apply_all(*applier, log_);
  EXPECT_THAT(rows("select id, v, lsn from seen"), ElementsAre("1|new|0/28"));
  // The ledger's entry of a key is its newest change; a tombstone beside a column stays until it expires.
  EXPECT_THAT(rows("select key, lsn from stones where key = '2'"), ElementsAre("2|0/1E"));
  if (!has_ledger()) {
    EXPECT_THAT(rows("select replica, schema_name, table_name, key, commit_lsn from pgbaton.tombstone order by key"),
                ElementsAre("r|public|t|[\"1\"]|0/14", "r|public|t|[\"2\"]|0/1E"));
  }
  EXPECT_EQ(applier->counters().stale, 2);
}

TEST_P(GuardTest, DeleteAndInsertInOneTransactionAndItsReplay) {
  for (int round = 0; round < 2; ++round) {
    log_.remove(table_, 20, {1, kNull});
    log_.insert(table_, 20, {1, "new"});
  }
  apply_all(*applier(), log_);
  EXPECT_THAT(rows("select v, lsn from seen"), ElementsAre("new|0/14"));
}

// Six changes of two keys: create, update, delete, create of one; create, update of the other. Every order, and in
// every order some changes come twice.
TEST_P(GuardTest, S40_EveryPermutationWithDuplicates) {
  std::vector<std::size_t> order(6);
  std::iota(order.begin(), order.end(), std::size_t{0});
  int permutation = 0;
  const auto change = [&](std::size_t i) {
    const int a = 2 * permutation, b = a + 1;
    if (i == 0) log_.insert(table_, 10, {a, "a10"});
    if (i == 1) log_.insert(table_, 20, {b, "b20"});
    if (i == 2) log_.update(table_, 30, {a, "a30"});
    if (i == 3) log_.remove(table_, 40, {a, kNull});
    if (i == 4) log_.update(table_, 50, {b, "b50"});
    if (i == 5) log_.insert(table_, 60, {a, "a60"});
  };
  do {
    for (std::size_t place = 0; place < order.size(); ++place) {
      change(order[place]);
      if ((permutation >> place) % 2 == 0) change(order[(place * 5 + static_cast<std::size_t>(permutation)) % 6]);
    }
    ++permutation;
  } while (std::next_permutation(order.begin(), order.end()));
  ASSERT_EQ(permutation, 720);
  apply_all(*applier(), log_);
  EXPECT_THAT(rows("select id % 2, v, lsn, count(*) from seen group by 1, 2, 3 order by 1"),
              ElementsAre("0|a60|0/3C|720", "1|b50|0/32|720"));
  // The same with the delete as the newest change: nothing comes back.
  ChangeLog late;
  for (int i = 0; i < permutation; ++i) late.remove(table_, 70, {2 * i, kNull});
  apply_all(*applier(), late);
  ChangeLog replay;
  for (int i = 0; i < permutation; ++i) replay.insert(table_, 60, {2 * i, "a60"});
  apply_all(*applier(), [&]() -> const ChangeLog& {
    replay.update(table_, 70, {1, "b70"});
    return replay;
  }());
  EXPECT_EQ(db().number("select count(*) from t where id % 2 = 0"), 0);
}

TEST_P(GuardTest, PartialUpdatesAndKeyChanges) {
  put(1, "big", "0/A");
  put(5, "big5", "0/A");
  log_.update(table_, 20, {2, kUnchanged}, {1, kNull});  // the value comes from the old row
  log_.update(table_, 20, {2, kUnchanged}, {1, kNull});  // replayed
  log_.update(table_, 30, {5, kUnchanged});
  log_.remove(table_, 40, {6, kNull});
  log_.update(table_, 40, {6, kUnchanged});  // its tombstone explains that it is gone
  apply_all(*applier(), log_);
  EXPECT_THAT(rows("select id, v, lsn from seen order by 1"), ElementsAre("2|big|0/14", "5|big5|0/1E"));
  ChangeLog hole;
  hole.update(table_, 50, {9, kUnchanged});
  const Error error = refusal(*applier(), hole);
  EXPECT_EQ(error.kind(), ErrorKind::rejected);
  EXPECT_EQ(error.key(), "(id)=(9)");
}

TEST_P(GuardTest, ALateTruncateSparesNewerRowsAndRaisesTheFloor) {
  db().exec(
      "insert into pgbaton.table_state (replica, generation, schema_name, table_name, source_oid) "
      "values ('r', 'g', 'public', 't', 1)");
  put(1, "old", "0/A");
  put(2, "new", "0/64");
  log_.truncate(50, {&table_});
  log_.insert(table_, 40, {3, "below the floor"});
  log_.insert(table_, 50, {4, "after it, in the same transaction"});
  apply_all(*applier(), log_);
  EXPECT_THAT(rows("select id from t order by 1"), ElementsAre("2", "4"));
  EXPECT_EQ(db().scalar("select floor_lsn from pgbaton.table_state"), "0/32");
}

TEST_P(GuardTest, WithoutAnArbiterTheSameByUpdateThenInsert) {
  table_.key_is_arbiter = false;
  db().exec("alter table t drop constraint t_pkey, add primary key (id) deferrable");
  log_.insert(table_, 20, {1, "created"});
  log_.insert(table_, 40, {1, "newer"});
  log_.insert(table_, 30, {1, "late"});
  log_.remove(table_, 60, {2, kNull});
  log_.insert(table_, 50, {2, "late"});
  apply_all(*applier(), log_);
  EXPECT_THAT(rows("select id, v, lsn from seen"), ElementsAre("1|newer|0/28"));
}

TEST_P(GuardTest, InOrderDeliveryLeavesNewerRowsAlone) {
  table_.delivery = Delivery::in_order;
  for (int i = 1; i <= 3; ++i) put(i, "newer", "0/64");
  put(4, "old", "0/A");
  log_.insert(table_, 20, {1, "stale"});
  log_.update(table_, 20, {2, "stale"});
  log_.remove(table_, 20, {3, kNull});
  log_.update(table_, 20, {4, "fresh"});
  const auto applier = this->applier();
  apply_all(*applier, log_);
  EXPECT_THAT(rows("select id, v from t order by 1"), ElementsAre("1|newer", "2|newer", "3|newer", "4|fresh"));
  EXPECT_EQ(applier->counters().stale, 3);
  EXPECT_EQ(applier->counters().fallbacks, 1);
}

}  // namespace
}  // namespace pgbaton::testing
