// Edges of the command line that a hostile tester has found, many on one pair of servers: one database each.
#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class EdgesTest : public PairTest {
 protected:
  void create(const std::string& database, const std::string& sql) {
    source().exec("create database " + database);
    target().exec("create database " + database);
    source().exec(sql, database);
  }
  Arguments in(const std::string& database, const std::string& command, const Arguments& more) {
    Arguments all{
        command, "--name", database, "--source", source().conninfo(database), "--target", target().conninfo(database)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  ToolResult run_in(const std::string& database, const std::string& command, const Arguments& more = {}) {
    return Tool::run(in(database, command, more));
  }
  void succeed(const std::string& database, const std::string& command, const Arguments& more = {}) {
    const auto result = run_in(database, command, more);
    EXPECT_EQ(result.code, 0) << result;
  }
  static void expect_refused(const ToolResult& result, int code, const std::vector<std::string>& parts) {
    EXPECT_EQ(result.code, code) << result;
    for (const auto& part : parts) EXPECT_THAT(result.err, HasSubstr(part));
  }

  void identity_full_lets_the_application_go_first();
};

// G9: an ALTER TABLE that waits makes every statement of the table wait behind it.
void EdgesTest::identity_full_lets_the_application_go_first() {
  create("polite", "create table k (a int); insert into k values (0)");
  auto reader = source().session("polite");
  reader.exec("begin; select count(*) from k");
  Tool clone(in("polite", "clone", {"--keyless", "full", "--until", "caught-up"}));
  ASSERT_TRUE(clone.wait_for_stderr("waiting for pid " + std::to_string(reader.backend_pid()))) << clone.err();
  auto writer = source().session("polite");
  auto longest = Milliseconds(0);
  for (int i = 1; i <= 40; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    writer.exec("insert into k values (" + std::to_string(i) + ")");
    longest = std::max(longest, std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - begin));
    std::this_thread::sleep_for(Milliseconds(25));
  }
  EXPECT_TRUE(clone.running()) << clone.err();
  EXPECT_LT(longest.count(), 1'000) << "a tenth of a second, on an idle machine";
  reader.exec("commit");
  const auto result = clone.wait();
  EXPECT_EQ(result.code, 0) << result;
  EXPECT_EQ(source().scalar("select relreplident from pg_class where relname = 'k'", "polite"), "f");
  EXPECT_EQ(target().number("select count(*) from k", "polite"), 41);
  succeed("polite", "drop");

  source().exec("create table never (a int)", "polite");
  reader.exec("begin; select count(*) from never");
  expect_refused(run_in("polite", "clone", {"--keyless", "full", "--slot-wait", "1s", "--include-table", "never"}), 5,
                 {"REPLICA IDENTITY FULL", "\"public\".\"never\"", "pid " + std::to_string(reader.backend_pid()),
                  "--slot-wait waits longer"});
  reader.exec("rollback");
  EXPECT_THAT(leftovers(source().conninfo("polite")), IsEmpty());
}

TEST_F(EdgesTest, OfTheCommandLine) {
  identity_full_lets_the_application_go_first();
}

}  // namespace
}  // namespace pgbaton::testing
