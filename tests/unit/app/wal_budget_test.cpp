#include "../../../src/app/wal_budget.hpp"

#include <gmock/gmock.h>

namespace pgbaton::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kMegabyte = 1 << 20;

Held held(std::int64_t bytes, std::int64_t limit = 100 * kMegabyte) {
  Held look;
  look.wal_bytes = bytes;
  look.limit = {limit, "--wal-budget"};
  return look;
}
// How many warnings, and of which share.
std::string said(WalBudget& budget, std::int64_t megabytes) {
  std::string all;
  for (const auto& notice : budget.judge(held(megabytes * kMegabyte)))
    all += notice.text.substr(0, notice.text.find(" of the")) + ";";
  return all;
}

TEST(WalLimit, TheSmallerOneCounts) {
  EXPECT_EQ(wal_limit(0, -1).bytes, -1);
  EXPECT_EQ(wal_limit(0, 5).name, "max_slot_wal_keep_size");
  EXPECT_EQ(wal_limit(7, -1).name, "--wal-budget");
  EXPECT_EQ(wal_limit(7, 5).bytes, 5);
  EXPECT_EQ(wal_limit(5, 7).bytes, 5);
  EXPECT_EQ(wal_limit(5, 7).name, "--wal-budget");
}

TEST(WalBudget, WarnsOnceOfEachStepAndAgainAfterItWasWellBelow) {
  WalBudget budget;
  EXPECT_EQ(said(budget, 49), "");
  EXPECT_EQ(said(budget, 50), "50 %;");
  EXPECT_EQ(said(budget, 60), "");
  EXPECT_EQ(said(budget, 91), "91 %;") << "one warning, of the highest";
  EXPECT_EQ(said(budget, 85), "");
  EXPECT_EQ(said(budget, 91), "") << "held WAL falls in steps";
  EXPECT_EQ(said(budget, 76), "");
  EXPECT_EQ(said(budget, 92), "92 %;");
  EXPECT_EQ(said(budget, 3), "");
  EXPECT_EQ(said(budget, 55), "55 %;");
}

TEST(WalBudget, WithoutALimitNothingIsSaid) {
  WalBudget budget;
  EXPECT_THAT(budget.judge(held(1'000'000 * kMegabyte, -1)), IsEmpty());
}

TEST(WalBudget, ACopyThatTakesTooLongIsSaidOnceUntilItLookedBetter) {
  WalBudget budget;
  auto look = held(10 * kMegabyte);
  EXPECT_THAT(budget.judge(look), IsEmpty()) << "no rate is known";
  look.written_per_second = kMegabyte;
  look.copy_seconds_left = 200;
  const auto first = budget.judge(look);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_THAT(first[0].text, AllOf(HasSubstr("will not be complete"), HasSubstr("--wal-budget")));
  EXPECT_THAT(first[0].event_detail, HasSubstr("\"projected_bytes\": 220200960"));
  EXPECT_THAT(budget.judge(look), IsEmpty());
  look.copy_seconds_left = -1;
  EXPECT_THAT(budget.judge(look), IsEmpty());
  look.copy_seconds_left = 20;
  EXPECT_THAT(budget.judge(look), IsEmpty());
  look.copy_seconds_left = 200;
  EXPECT_EQ(budget.judge(look).size(), 1u);
}

TEST(WalBudget, HowLongASnapshotIsHeldIsSaidWithIt) {
  auto look = held(50 * kMegabyte);
  look.snapshot_seconds = 125;
  look.xmin_age = 1234;
  EXPECT_THAT(wal_used_text(look),
              AllOf(HasSubstr("50 %"), HasSubstr("a snapshot for 2 m 5 s"), HasSubstr("over 1,234 transactions")));
}

TEST(WalBudget, VacuumHeldBackIsMeasuredAgainstTheFreezeAge) {
  WalBudget budget;
  Held look;
  look.xmin_limit = 200'000'000;
  look.xmin_age = 99'000'000;
  EXPECT_THAT(budget.judge(look), IsEmpty()) << "and no limit of WAL is needed";
  look.xmin_age = 160'000'000;
  const auto first = budget.judge(look);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_THAT(first[0].text, AllOf(HasSubstr("160,000,000 transactions"), HasSubstr("slots, 80 %")));
  EXPECT_THAT(first[0].event_detail, HasSubstr("\"xmin_age_transactions\": 160000000"));
  look.xmin_age = 170'000'000;
  EXPECT_THAT(budget.judge(look), IsEmpty());
  look.snapshot_seconds = 3;
  look.xmin_age = 190'000'000;
  EXPECT_THAT(budget.judge(look).at(0).text, HasSubstr("this replica's snapshot, 95 %"));
}

}  // namespace
}  // namespace pgbaton::app
