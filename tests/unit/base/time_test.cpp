#include <gtest/gtest.h>

#include <pgbaton/base/error.hpp>
#include <pgbaton/base/time.hpp>
#include <thread>

namespace pgbaton {
namespace {

using namespace std::chrono_literals;

TEST(Duration, Parses) {
  EXPECT_EQ(parse_duration("500ms", "x"), 500ms);
  EXPECT_EQ(parse_duration("120s", "x"), 120s);
  EXPECT_EQ(parse_duration("5m", "x"), 5min);
  EXPECT_EQ(parse_duration("2h", "x"), 2h);
  EXPECT_EQ(parse_duration("1d", "x"), 24h);
  EXPECT_EQ(parse_duration("60", "x"), 60s);
  EXPECT_EQ(parse_duration("0", "x"), 0ms);
}

TEST(Duration, RefusesEverythingElse) {
  for (const auto* text :
       {"", "s", "-1", "-1s", "5 m", "5x", "1.5h", "5mm", "5M", "99999999999999999999", "9223372036854775807h"}) {
    try {
      parse_duration(text, "--slot-wait");
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage) << text;
      EXPECT_TRUE(e.message().starts_with("--slot-wait: ")) << e.message();
    }
  }
}

TEST(Duration, Formats) {
  EXPECT_EQ(format_duration(0ms), "0 ms");
  EXPECT_EQ(format_duration(850ms), "850 ms");
  EXPECT_EQ(format_duration(12'345ms), "12.3 s");
  EXPECT_EQ(format_duration(59'999ms), "59.9 s");
  EXPECT_EQ(format_duration(5min + 10s), "5 m 10 s");
  EXPECT_EQ(format_duration(2h + 5min + 59s), "2 h 5 m");
  EXPECT_EQ(format_duration(-5ms), "-5 ms");
}

TEST(Deadline, NeverAndFarAwayDoNotOverflow) {
  EXPECT_FALSE(Deadline::never().passed());
  EXPECT_EQ(Deadline::never().left(50ms), 50ms);
  EXPECT_FALSE(Deadline::after(Milliseconds::max()).passed());
}

TEST(Deadline, LeftIsBoundedOnBothSides) {
  EXPECT_TRUE(Deadline::after(0ms).passed());
  EXPECT_EQ(Deadline::after(-5s).left(50ms), 0ms);
  EXPECT_EQ(Deadline::after(1h).left(50ms), 50ms);
  EXPECT_LE(Deadline::after(20ms).left(1h), 20ms);
}

TEST(Sleep, LastsAndIsInterrupted) {
  std::stop_source stop;
  auto begin = Clock::now();
  EXPECT_TRUE(sleep_for(20ms, stop.get_token()));
  EXPECT_GE(Clock::now() - begin, 20ms);
  std::jthread stopper([&] {
    std::this_thread::sleep_for(20ms);
    stop.request_stop();
  });
  begin = Clock::now();
  EXPECT_FALSE(sleep_for(60s, stop.get_token()));
  EXPECT_LT(Clock::now() - begin, 10s);
  EXPECT_FALSE(sleep_for(60s, stop.get_token())) << "a stop that came before";
  EXPECT_TRUE(sleep_for(1ms, std::stop_token())) << "a token without source";
}

TEST(Backoff, DoublesToTheCapWithJitterAndResets) {
  Backoff backoff(100ms, 350ms);
  for (const auto base : {100, 200, 350, 350}) {
    const auto wait = backoff.next().count();
    EXPECT_GE(wait, base);
    EXPECT_LE(wait, base * 5 / 4);
  }
  backoff.reset();
  EXPECT_LE(backoff.next(), 125ms);
}

}  // namespace
}  // namespace pgbaton
