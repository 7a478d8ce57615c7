// Tables whose rows are found by all their values (REPLICA IDENTITY FULL): rows that are equal and yet not the same.
#include "apply_fixture.hpp"

namespace pgbaton::testing {
namespace {

using apply::Strategy;
using ::testing::ElementsAre;

class TwinsTest : public ApplyTest {};

// Found by scripts/fuzz (seed 9001): the row that was deleted was the other one.
TEST_F(TwinsTest, ANondeterministicCollationDoesNotChooseTheRow) {
  db().exec("create collation ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)");
  for (const auto strategy : {Strategy::batch, Strategy::change_by_change}) {
    db().exec(
        "drop table if exists t; create table t (n int, x text collate ci, y varchar collate ci, z bpchar collate ci);"
        "insert into t values (1, 'A', 'b', 'c'), (1, 'a', 'b', 'c'), (2, 'x', 'Y', 'z'), (2, 'x', 'y', 'z'), "
        "(3, 'x', 'y', 'Z'), (3, 'x', 'y', 'z')");
    const auto table = describe("t");
    const auto writer = applier(strategy);
    ChangeLog log;
    log.remove(table, 20, {1, "a", "b", "c"});
    log.update(table, 20, {2, "new", "y", "z"}, {2, "x", "y", "z"});
    log.remove(table, 20, {3, "x", "y", "z"});
    apply_all(*writer, log);
    EXPECT_THAT(rows("select * from t order by n, x"), ElementsAre("1|A|b|c", "2|new|y|z", "2|x|Y|z", "3|x|y|Z"));
    db().exec(
        "delete from pgbaton.progress; insert into pgbaton.progress (replica, generation, applier_number, "
        "applier_count, epoch, applied_lsn) values ('r', 'g', 0, 1, 7, '0/1')");
  }
}

}  // namespace
}  // namespace pgbaton::testing
