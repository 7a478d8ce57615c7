#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>

namespace pgbaton {
namespace {

// What `work` writes to stderr under the given settings; the defaults are restored.
template <typename Work>
std::string logged(log::Level level, log::Format format, Work work) {
  log::configure(level, format);
  testing::internal::CaptureStderr();
  work();
  auto text = testing::internal::GetCapturedStderr();
  log::configure(log::Level::info, log::Format::text);
  return text;
}

TEST(Log, TextLine) {
  const auto text = logged(log::Level::info, log::Format::text, [] { log::info("copied {} rows", 7); });
  EXPECT_TRUE(testing::internal::RE::PartialMatch(
      text, "^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3} INFO  copied 7 rows\n$"))
      << text;
}

TEST(Log, OnlyTheLevelsAskedFor) {
  const auto text = logged(log::Level::warning, log::Format::text, [] {
    log::debug("one");
    log::info("two");
    log::warning("three");
    log::error("four");
    EXPECT_FALSE(log::enabled(log::Level::info));
  });
  EXPECT_EQ(text.find("two"), std::string::npos);
  EXPECT_NE(text.find("WARN  three"), std::string::npos);
  EXPECT_NE(text.find("ERROR four"), std::string::npos);
}

TEST(Log, AMessageCannotImitateAnotherLine) {
  const auto text = logged(log::Level::info, log::Format::text, [] { log::info("{}", "a\nERROR b\n"); });
  EXPECT_TRUE(text.ends_with("a\n\tERROR b\n")) << text;
}

TEST(Log, JsonLinesAreValidWhateverTheMessage) {
  const auto text = logged(log::Level::debug, log::Format::json, [] {
    log::debug("{}", "quote \" backslash \\ newline \n tab \t percent %v %% brace {}");
    log::warning("{}", "not utf-8: \xff\xfe");
  });
  std::istringstream lines(text);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const auto first = nlohmann::json::parse(line);
  EXPECT_EQ(first["level"], "debug");
  EXPECT_EQ(first["message"], "quote \" backslash \\ newline \n tab \t percent %v %% brace {}");
  EXPECT_TRUE(first["ts"].get<std::string>().ends_with("Z"));
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(nlohmann::json::parse(line)["level"], "warning");
  EXPECT_FALSE(std::getline(lines, line));
}

TEST(Log, NamesOfTheCommandLine) {
  EXPECT_EQ(log::parse_level("warning"), log::Level::warning);
  EXPECT_EQ(log::parse_format("json"), log::Format::json);
  EXPECT_THROW(log::parse_level("loud"), Error);
  EXPECT_THROW(log::parse_format("xml"), Error);
}

}  // namespace
}  // namespace pgbaton
