// S17: exactly the transactions with end LSN <= L, for every L around the borders of transactions, also inside a
// record.
#include "replica_under_test.hpp"

namespace pgbaton::testing {
namespace {

class UntilTest : public StreamTest {
 protected:
  // Runs the stream to exactly this position and says how many rows there are then.
  long long rows_at(Lsn lsn, std::size_t window_changes = 50'000) {
    auto with = options();
    with.window_changes = window_changes;
    stream::Stream stream(with, state::Store(lease_->connection()).load_replica("default").value(), *lease_);
    EXPECT_EQ(stream.run(stream::UntilEndLsn{lsn}, {}), stream::Ended::reached);
    EXPECT_LE(stream.durable_end_lsn(), lsn);
    return target().number("select count(*) from t");
  }
};

TEST_F(UntilTest, S17_EveryPositionAroundABorderShowsWholeTransactions) {
  source().exec("create table t (id int primary key)");
  clone_until_caught_up();
  // test_decoding names each transaction's end: the LSN of its COMMIT row.
  source().exec("select pg_create_logical_replication_slot('watch', 'test_decoding')");
  for (int i = 0; i < 3; ++i) {
    source().exec("insert into t select " + std::to_string(i) + " * 100 + g from generate_series(1, 10) g");
  }
  source().exec("select pg_switch_wal()");
  std::vector<Lsn> ends;
  for (const auto& row :
       source().query("select lsn from pg_logical_slot_get_changes('watch', null, null) where data like 'COMMIT%'")) {
    ends.push_back(*parse_lsn(*row[0]));
  }
  ASSERT_EQ(ends.size(), 3u);
  source().exec("select pg_drop_replication_slot('watch')");
  take_lease();
  long long expected = 0;
  for (const Lsn end_lsn : ends) {
    // A commit record without invalidations takes some 40 to 60 bytes: these lie before, at and inside it.
    for (const std::uint64_t back : {400u, 100u, 48u, 40u, 17u, 8u, 1u}) {
      EXPECT_EQ(rows_at(Lsn{end_lsn.value - back}), expected) << to_string(end_lsn) << " - " << back;
    }
    // The same inside a transaction that was written in parts before its end was known.
    EXPECT_EQ(rows_at(Lsn{end_lsn.value - 1}, 3), expected);
    expected += 10;
    EXPECT_EQ(rows_at(end_lsn, 3), expected);
    EXPECT_EQ(rows_at(end_lsn), expected);  // a second run has nothing to do
  }
  lease_.reset();
  expect_equal_after_drain();
}

TEST_F(UntilTest, WindowsOfAllSizesGiveTheSame) {
  source().exec("create table t (id int primary key, v text)");
  clone_until_caught_up();
  for (int round = 0; round < 4; ++round) {
    source().exec(
        "insert into t select g, 'a' from generate_series(1, 50) g on conflict (id) do update set v = t.v || 'x';"
        "update t set id = id + 1000 * (select max(id) / 1000 + 1 from t) where id % 7 = 0 and id < 1000; delete from "
        "t where id % 5 = 0");
    take_lease();
    auto with = options();
    with.window_changes = static_cast<std::size_t>(1 + round * 13);
    with.change_by_change = round == 3;
    stream::Stream stream(with, replica_, *lease_);
    const Lsn here = *parse_lsn(source().scalar("select pg_current_wal_flush_lsn()"));
    EXPECT_EQ(stream.run(stream::UntilApplied{here}, {}), stream::Ended::reached);
    lease_.reset();
    expect_equal();
  }
}

}  // namespace
}  // namespace pgbaton::testing
