// What --http is made of, without a server: addresses, the history in bounded memory, the text of metrics, completions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pgbaton/base/error.hpp>

#include "../../../src/app/exposition.hpp"
#include "../../../src/app/history.hpp"
#include "../../../src/app/http_server.hpp"
#include "../../../src/app/manual.hpp"

namespace pgbaton::app {
namespace {

using ::testing::HasSubstr;

std::string parsed(const std::string& text) {
  try {
    const auto address = parse_http_address(text);
    return address.host + " " + std::to_string(address.port);
  } catch (const Error& error) {
    return std::string(to_string(error.kind())) + ": " + std::string(error.message());
  }
}

TEST(HttpAddressTest, APortAloneIsForThisMachineOnly) {
  EXPECT_EQ(parsed("9187"), "127.0.0.1 9187");
  EXPECT_EQ(parsed(":9187"), "127.0.0.1 9187");
  EXPECT_EQ(parsed("localhost:0"), "127.0.0.1 0");
  EXPECT_EQ(parsed("0.0.0.0:80"), "0.0.0.0 80");
  EXPECT_EQ(parsed("[::1]:80"), "::1 80");
  for (const auto* wrong : {"", ":", "localhost", "70000", "-1", "db1:80", "1.2.3.4:", "1.2.3.4:x", "1.2.3:80"})
    EXPECT_THAT(parsed(wrong), HasSubstr("usage: --http: ")) << wrong;
}

HistoryPoint point(double at, double lag, double rate) {
  HistoryPoint result;
  result.at = at;
  result.values[2] = lag;
  result.values[6] = rate;
  return result;
}

TEST(HistoryTest, HoldsTheWholeTimeInBoundedMemory) {
  History history(1.0);
  constexpr int kSamples = 100'000;
  for (int i = 1; i <= kSamples; ++i) history.add(point(i, i == 5000 ? 7 : 1, i % 2 == 0 ? 10 : 30));
  const auto& points = history.points();
  ASSERT_LE(points.size(), History::kMostPoints);
  ASSERT_GE(points.size(), History::kMostPoints / 2 - 1);
  EXPECT_DOUBLE_EQ(points.front().at, history.seconds());
  EXPECT_GT(points.back().at, kSamples - 2 * history.seconds());
  double worst = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_DOUBLE_EQ(points[i].values[6].value(), 20);  // the mean of a rate
    EXPECT_FALSE(points[i].values[0]);                  // never known
    worst = std::max(worst, points[i].values[2].value());
    if (i > 0) {
      EXPECT_DOUBLE_EQ(points[i].at - points[i - 1].at, history.seconds());
    }
  }
  EXPECT_EQ(worst, 7);  // a second that was bad is not averaged away
}

TEST(ExpositionTest, WritesFamiliesAndEscapesWhatNamesHold) {
  static constexpr std::array kBounds = {0.5, 1.0};
  Histogram histogram(kBounds);
  histogram.add(0.2);
  histogram.add(3);
  const Labels common = {{"replica", "shop"}};
  Exposition out(common);
  out.family("pgbaton_table_bytes", "gauge", "Two\nlines.");
  out.sample(1536, {{"table", "a\"b\\c\nd"}});
  out.family("pgbaton_x_seconds", "histogram", "Help.");
  out.histogram(histogram.counts());
  out.states("pgbaton_phase", "Help.", "phase", {"a", "b"}, "b");
  EXPECT_EQ(out.take(),
            "# HELP pgbaton_table_bytes Two\\nlines.\n# TYPE pgbaton_table_bytes gauge\n"
            "pgbaton_table_bytes{replica=\"shop\",table=\"a\\\"b\\\\c\\nd\"} 1536\n"
            "# HELP pgbaton_x_seconds Help.\n# TYPE pgbaton_x_seconds histogram\n"
            "pgbaton_x_seconds_bucket{replica=\"shop\",le=\"0.5\"} 1\n"
            "pgbaton_x_seconds_bucket{replica=\"shop\",le=\"1\"} 1\n"
            "pgbaton_x_seconds_bucket{replica=\"shop\",le=\"+Inf\"} 2\n"
            "pgbaton_x_seconds_sum{replica=\"shop\"} 3.2\npgbaton_x_seconds_count{replica=\"shop\"} 2\n"
            "# HELP pgbaton_phase Help.\n# TYPE pgbaton_phase gauge\n"
            "pgbaton_phase{replica=\"shop\",phase=\"a\"} 0\npgbaton_phase{replica=\"shop\",phase=\"b\"} 1\n");
}

TEST(ManualTest, DescribesCompletionsByTheFirstClause) {
  EXPECT_EQ(first_clause("options from a file: the same names; more"), "options from a file: the same names");
  EXPECT_EQ(first_clause("keep the slot (default), or drop it"), "keep the slot");
  EXPECT_EQ(first_clause(""), "");
}

}  // namespace
}  // namespace pgbaton::app
