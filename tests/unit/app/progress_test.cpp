#include <gmock/gmock.h>

#include "../../../src/app/layout.hpp"
#include "../../../src/app/view.hpp"

namespace pgbaton::app {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::ResultOf;

auto fits(int columns) {
  return Each(ResultOf(
      "width", [](const std::string& line) { return display_width(line); }, Le(columns)));
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  return text;
}

TEST(Layout, WidthOfCharacters) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("größe"), 5);
  EXPECT_EQ(display_width("顧客"), 4);
  EXPECT_EQ(display_width("█░…"), 3);
  EXPECT_EQ(display_width(""), 0);
}

TEST(Layout, FitCutsAtCharacters) {
  EXPECT_EQ(fit("customers", 9, true), "customers");
  EXPECT_EQ(fit("customers", 8, true), "custome…");
  EXPECT_EQ(fit("customers", 8, false), "custo...");
  EXPECT_EQ(fit("顧客の一覧", 7, true), "顧客の…");
  EXPECT_EQ(fit("顧客", 7, false), "??");
  EXPECT_EQ(fit("a\x1b[31mb\xff", 20, true), "a?[31mb?");
  EXPECT_EQ(fit("customers", 1, true), "");
  EXPECT_EQ(pad("ab", 4, true), "ab  ");
}

TEST(Layout, NumbersForPeople) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1000), "1,000");
  EXPECT_EQ(count_text(-1234567), "-1,234,567");
  EXPECT_EQ(percent(0.999), " 99 %");
  EXPECT_EQ(percent(1), "100 %");
  EXPECT_EQ(percent(-3), "  0 %");
  EXPECT_EQ(duration_text(0.4), "0 s");
  EXPECT_EQ(duration_text(61), "1 m 1 s");
}

TEST(Layout, ColumnsAreAsWideAsTheirCells) {
  EXPECT_EQ(
      in_columns({{"table", "rows", ""}, {"größe", "1,234", "2 of 3 parts"}, {"    a note"}, {"t", "7", ""}}, "lrl"),
      "table   rows\n"
      "größe  1,234  2 of 3 parts\n"
      "    a note\n"
      "t          7\n");
}

TEST(Layout, LongLinesGoOnUnderTheirText) {
  EXPECT_EQ(wrapped("slot        pgbaton, active, WAL reserved\nshort\n", 30),
            "slot        pgbaton, active,\n            WAL reserved\nshort\n");
  EXPECT_EQ(wrapped("      -> ALTER TABLE t ADD PRIMARY KEY (id);\n", 24),
            "      -> ALTER TABLE t\n      ADD PRIMARY KEY\n      (id);\n");
  EXPECT_EQ(wrapped("\x1b[1;31mtwo blockers\x1b[0m are here", 21), "\x1b[1;31mtwo blockers\x1b[0m are here\n");
  EXPECT_EQ(wrapped("one two", 5), "one\ntwo\n");
  EXPECT_EQ(wrapped("wordswithoutblanks", 5), "wordswithoutblanks\n");
  EXPECT_EQ(wrapped("", 5), "");
  EXPECT_EQ(wrapped("\na\n", 5), "\na\n");
}

TEST(Layout, PartsThatDoNotFitGoBelow) {
  const std::vector<std::string> parts{"1.2 GB of about 2.1 GB", "ETA 42 s", "3 of 12 tables"};
  EXPECT_THAT(
      bar_lines("copy", 0.5, parts, {80, 24, false}),
      ElementsAre("copy     ########........  50 %  1.2 GB of about 2.1 GB  ETA 42 s", "         3 of 12 tables"));
  EXPECT_EQ(bar_lines("copy", 0.5, parts, {120, 24, false}).size(), 1u);
  EXPECT_THAT(
      bar_lines("copy", 0.5, parts, {60, 24, false}),
      ElementsAre("copy     ########........  50 %  1.2 GB of about 2.1 GB", "         ETA 42 s  3 of 12 tables"));
}

TEST(Rate, AverageFirstThenSmoothed) {
  Rate rate;
  const auto start = Clock::now();
  const auto at = [&](int ms) { return start + Milliseconds(ms); };
  EXPECT_EQ(rate.update(1'000'000, at(0)), 0) << "what was there before is no growth";
  EXPECT_DOUBLE_EQ(rate.update(1'000'100, at(1000)), 100);
  EXPECT_DOUBLE_EQ(rate.update(1'000'200, at(2000)), 100);
  const double falling = rate.update(1'000'200, at(3000));
  EXPECT_LT(falling, 100);
  EXPECT_GT(falling, 50);
  EXPECT_NEAR(rate.update(1'000'200, at(63'000)), 0, 1);
}

struct CopyViewTest : ::testing::Test {
  copy::CopyProgress progress;
  std::unique_ptr<View> view = copy_view(progress);
  Clock::time_point start = Clock::now();
  std::vector<std::shared_ptr<copy::TableInFlight>> tables;

  void half_copied() {
    progress.tables_total = 4;
    progress.bytes_total = 1000 << 20;
    progress.step = copy::Step::tables;
    view->block(start, {80, 24, true});
    tables.push_back(progress.in_flight.add("\"public\".\"small\"", true, 0));
    tables.push_back(progress.in_flight.add("\"public\".\"big\"", false, 600 << 20));
    tables.back()->bytes = 300 << 20;
    progress.size_done = 200 << 20;
    progress.tables_done = 2;
    progress.rows = 123'456;
    progress.bytes = 480 << 20;
  }
};

TEST_F(CopyViewTest, BlockHasBarsAndTablesInFlight) {
  half_copied();
  for (int columns : {20, 40, 79, 80, 120, 200, 400}) {
    const auto lines = view->block(start + Milliseconds(10'000), {columns, 24, true});
    EXPECT_THAT(lines, fits(columns));
    const auto text = joined(lines);
    EXPECT_THAT(text, HasSubstr("copy "));
    EXPECT_THAT(text, HasSubstr("50 %"));
    EXPECT_THAT(text, HasSubstr("ETA 10 s"));
  }
  const auto text = joined(view->block(start + Milliseconds(10'000), {100, 24, true}));
  EXPECT_THAT(text, HasSubstr("500 MB of about 1000 MB"));
  EXPECT_THAT(text, HasSubstr("123,456 rows"));
  EXPECT_THAT(text, HasSubstr("0 of 4 tables"));
  EXPECT_LT(text.find("\"public\".\"big\""), text.find("\"public\".\"small\"")) << "copied ones first";
}

TEST_F(CopyViewTest, AsManyTablesAsThereIsRoomFor) {
  half_copied();
  for (int i = 0; i < 30; ++i) tables.push_back(progress.in_flight.add("t" + std::to_string(i), false, 0));
  for (int rows : {3, 5, 8, 24}) {
    const auto lines = view->block(start + Milliseconds(1000), {200, rows, true});
    EXPECT_LE(lines.size(), static_cast<std::size_t>(rows - 1)) << joined(lines);
  }
  EXPECT_THAT(joined(view->block(start + Milliseconds(2000), {200, 10, true})), HasSubstr("and 26 more"));
  tables.clear();
  EXPECT_EQ(view->block(start + Milliseconds(3000), {200, 10, true}).size(), 2u);
}

TEST_F(CopyViewTest, LineForALog) {
  EXPECT_THAT(view->line(start), HasSubstr("preparing"));
  half_copied();
  const auto line = view->line(start + Milliseconds(10'000));
  EXPECT_THAT(line, HasSubstr("copying: 2 of 4 tables"));
  EXPECT_THAT(line, HasSubstr("(50 %)"));
  EXPECT_EQ(line.find('\n'), line.npos);
}

// Lines come every 10 s: tables are copied for seconds when the first one says how fast they are.
TEST_F(CopyViewTest, TheFirstLineOfARunningCopyHasItsRate) {
  EXPECT_THAT(view->line(start), HasSubstr("preparing"));
  progress.tables_total = 1;
  progress.bytes_total = 100 << 20;
  progress.step = copy::Step::tables;
  tables.push_back(progress.in_flight.add("\"public\".\"big\"", false, 100 << 20));
  tables.back()->bytes = 40 << 20;
  progress.bytes = 40 << 20;
  EXPECT_THAT(view->line(tables.back()->since + Milliseconds(10'000)), HasSubstr("(40 %), 4.0 MB/s"));
  progress.bytes = 50 << 20;
  EXPECT_THAT(view->line(tables.back()->since + Milliseconds(20'000)), HasSubstr("1.0 MB/s"));
}

TEST(StreamView, SaysWhatMatters) {
  stream::StreamStatus status;
  auto view = stream_view([&] { return status; });
  const auto start = Clock::now();
  EXPECT_THAT(joined(view->block(start, {80, 24, true})), HasSubstr("connecting"));
  status.connected = true;
  status.applied_lsn = Lsn{0x1000};
  status.source_flush_lsn = Lsn{0x2000};
  status.lag_seconds = 1.5;
  status.changes = 20'000;
  status.transactions = 500;
  status.slot_held_bytes = 64 << 20;
  const auto later = start + Milliseconds(10'000);
  EXPECT_THAT(view->block(later, {130, 24, true}),
              ElementsAre("stream   applied 0/1000  4.0 kB behind (1.5 s)  2,000 changes/s  50 transactions/s  "
                          "64 MB of WAL held"));
  EXPECT_THAT(view->block(later, {60, 24, true}), fits(60));
  EXPECT_THAT(view->line(later), HasSubstr("streaming: applied 0/1000, 4.0 kB behind (1.5 s)"));
  status.connected = false;
  EXPECT_EQ(view->line(later + Milliseconds(10'000)), "streaming: not connected, applied 0/1000, lag not known");
}

}  // namespace
}  // namespace pgbaton::app
