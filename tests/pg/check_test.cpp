// `check`: all it can find as a golden document, that it changes nothing, and its colours.
#include <cstdlib>
#include <fstream>

#include "pg/check_fixture.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// ---- the golden document

// What differs from machine to machine and from run to run.
std::string masked(std::string text) {
  const std::pair<const char*, const char*> masks[] = {
      {R"(/[^ "]*/pg_dump)", "<path>/pg_dump"},
      {R"(\b\d+(\.\d+)? (B|kB|MB|GB|TB)\b)", "<size>"},
      {R"((\b\d+ (h|m) )?\b\d+(\.\d+)? (ms|s|m)\b)", "<time>"},
      {R"(\bpid \d+)", "pid <pid>"},
      {R"(pg_terminate_backend\(\d+\))", "pg_terminate_backend(<pid>)"},
      {R"(\b\d+\.\d+(\.\d+)*\b)", "<version>"},
  };
  for (const auto& [pattern, mask] : masks) text = std::regex_replace(text, std::regex(pattern), mask);
  return text;
}

class EverythingTest : public CheckTest {
 protected:
  ClusterOptions source_options() const override {
    auto options = options_of_both();
    for (const auto& setting :
         std::initializer_list<std::pair<std::string, std::string>>{{"max_slot_wal_keep_size", "1GB"},
                                                                    {"wal_sender_timeout", "3s"},
                                                                    {"max_prepared_transactions", "5"},
                                                                    {"max_replication_slots", "1"},
                                                                    {"max_wal_senders", "1"}})
      options.settings.push_back(setting);
    return options;
  }
};

TEST_F(EverythingTest, JsonIsTheGoldenDocument) {
  source().exec(read_test_data("check/everything.sql"));
  source().exec("create tablespace away location ''");
  source().exec(read_test_data("check/blockers.sql"));
  source().exec("alter database postgres set statement_timeout = '7s'");
  source().exec("begin; insert into plain values (-1, 0); prepare transaction 'left over'");
  auto open = source().session(), temporary = source().session();
  open.exec("begin; insert into plain values (-2, 0)");
  temporary.exec("create temp table passing (id int)");
  target().exec("create database latin encoding 'LATIN1' locale 'C' template template0");
  target().exec("create table plain (id int)", "latin");
  std::this_thread::sleep_for(Milliseconds(5500));  // an ordinary transaction is worth a line after 5 s

  const auto document = findings(source().conninfo(), target().conninfo("latin"), {}, 3);
  const auto actual = masked(document.dump(2)) + "\n";
  if (const char* folder = std::getenv("PGBATON_ACTUAL_DIR"))
    std::ofstream(folder + std::string("/everything.json")) << actual;
  EXPECT_EQ(actual, read_test_data("check/everything.json"))
      << "PGBATON_ACTUAL_DIR=somewhere writes what was found; read the difference before it becomes the golden file";

  const auto alone = findings(source().conninfo(), "", {}, 3);
  EXPECT_THAT(ids(alone, "blocker"), Contains("source.large_objects"));
  EXPECT_THAT(ids(alone, "note"), Contains("source.estimate"));

  const auto people = run("check");
  EXPECT_THAT(people.out, ::testing::AllOf(HasSubstr("blockers\n"), HasSubstr("a clone would be refused"),
                                           Not(HasSubstr("\x1b["))));
  open.exec("rollback");
  source().exec("rollback prepared 'left over'");
}

// ---- it changes nothing

TEST_F(CheckTest, ChangesNothingOnEitherSide) {
  for (auto* cluster : {&source(), &target()})
    cluster->exec(
        "create role careful superuser login replication; alter role careful set default_transaction_read_only = on");
  source().exec(read_test_data("check/everything.sql"));
  const auto traces = [](Cluster& cluster) {
    // No transaction id was given out, and no row of any database (catalogs included) was written.
    return cluster.scalar(
        "select txid_snapshot_xmax(txid_current_snapshot()) || ' ' || sum(tup_inserted + tup_updated + tup_deleted) "
        "from pg_stat_database");
  };
  findings(source().conninfo(), target().conninfo(), {}, 0);  // fills caches
  const auto source_before = traces(source()), target_before = traces(target());
  for (const auto* user : {"postgres", "careful"})
    findings(source().conninfo("postgres", user), target().conninfo("postgres", user), {}, 0);
  findings(source().conninfo(), target().conninfo(), {"--schema", "none"}, 3);
  findings(source().conninfo(), target().conninfo(), {"--keyless", "full"}, 0);
  EXPECT_EQ(traces(source()), source_before);
  EXPECT_EQ(traces(target()), target_before);
  EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
  EXPECT_THAT(target_leftovers(target().conninfo()), IsEmpty());
}

// The output of a shell command.
std::string shell(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), &pclose);
  std::string text;
  char part[4096];
  for (std::size_t n; pipe && (n = fread(part, 1, sizeof part, pipe.get())) > 0;) text.append(part, n);
  return text;
}

// script(1) gives the tool a terminal.
TEST_F(CheckTest, ColoursOnATerminalOnly) {
  source().exec("create unlogged table u (id int primary key)");
  const auto command = Tool::path() + " check --schema none --source '" + source().conninfo() + "'";
  const auto on_terminal = "script -qec \"" + command + "\" /dev/null </dev/null 2>&1";
  EXPECT_THAT(shell("NO_COLOR= TERM=xterm " + on_terminal), HasSubstr("\x1b[1;33mtable.unlogged\x1b[0m"));
  for (const auto& plain : {"NO_COLOR=1 TERM=xterm " + on_terminal, "NO_COLOR= TERM=dumb " + on_terminal,
                            "NO_COLOR= TERM=xterm " + command})
    EXPECT_THAT(shell(plain), ::testing::AllOf(HasSubstr("  table.unlogged  "), Not(HasSubstr("\x1b[")))) << plain;
}

}  // namespace
}  // namespace pgbaton::testing
