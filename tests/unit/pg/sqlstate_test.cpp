#include <gtest/gtest.h>

#include <pgbaton/pg/sqlstate.hpp>

namespace pgbaton::pg {
namespace {

TEST(Sqlstate, Retry) {
  for (const auto* state : {"", "08000", "08006", "57P01", "57P02", "57P03", "57P05", "57014", "53300", "53200",
                            "40001", "40P01", "40003", "55P03", "55006", "25P03", "25P04"}) {
    EXPECT_EQ(classify(state), Action::retry) << state;
  }
}

TEST(Sqlstate, Stop) {
  for (const auto* state :
       {"57P04", "53100", "53400", "40002", "55000", "58030", "58P01", "58P02", "22P02", "22023", "23505",
        "23502", "44000", "42501", "42P01", "42703", "42704", "42710", "42P07", "42804", "42883", "25006",
        "28P01", "28000", "3D000", "0A000", "P0001", "XX000", "XX001", "99999", "21000", "2BP01"}) {
    EXPECT_EQ(classify(state), Action::stop) << state;
  }
}

TEST(Sqlstate, Bug) {
  for (const auto* state : {"42601", "42P18", "42702", "25001", "25P02", "26000", "34000", "08P01", "55P02"}) {
    EXPECT_EQ(classify(state), Action::bug) << state;
  }
}

TEST(Sqlstate, DataErrors) {
  for (const auto* state : {"22001", "22P02", "23505", "23503", "44000", "21000"}) EXPECT_TRUE(is_data_error(state));
  for (const auto* state : {"", "40001", "42P01", "2F000", "P0001"}) EXPECT_FALSE(is_data_error(state)) << state;
}

TEST(Sqlstate, SnapshotGone) {
  for (const auto* state : {"22023", "42704", "55000"}) EXPECT_TRUE(is_snapshot_gone(state));
  EXPECT_FALSE(is_snapshot_gone("22P02"));
}

}  // namespace
}  // namespace pgbaton::pg
