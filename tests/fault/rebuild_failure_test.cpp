// A rebuild that fails: the generation before serves on, the next run is clean, and one line says what to do.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "rebuild.hpp"
#include "support/small_disk.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class RebuildFailureTest : public Rebuilds {
 protected:
  void SetUp() override {
    Rebuilds::SetUp();
    create_tables();
    const auto result = rebuild();
    ASSERT_EQ(result.code, 0) << result;
    served_ = served_version();
  }
  // The code, words of the message, one line; the live database is as it was, nothing is left on either side.
  void expect_failed(const ToolResult& result, int code, const std::string& says) {
    EXPECT_EQ(result.code, code) << result;
    EXPECT_THAT(result.err, StartsWith("ERROR: "));
    EXPECT_THAT(result.err, HasSubstr(says));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result;
    expect_served_on();
    expect_clean(0);
  }
  void expect_served_on() {
    EXPECT_EQ(served_version(), served_);
    EXPECT_EQ(target().number("select count(*) from one", "shop"), 500);
  }
  void expect_next_is_clean() {
    const auto version = next_version();
    const auto result = rebuild({"--keep", "0"});
    EXPECT_EQ(result.code, 0) << result;
    EXPECT_EQ(served_version(), version);
    expect_served();
    expect_clean(0);
    served_ = version;
  }
  std::string write_file(const std::string& name, const std::string& text) {
    if (directory_.empty()) directory_ = make_run_directory("sql");
    std::ofstream(directory_ + "/" + name) << text;
    return directory_ + "/" + name;
  }

  long long served_ = 0;
  std::string directory_;
};

TEST_F(RebuildFailureTest, DifferencesSqlHooksAndTime) {
  next_version();
  {
    auto tool = frozen("rebuild_verifying", {"--verify"});
    target().exec("delete from two where id = 7", "shop__g2");
    tool.kill(SIGCONT);
    expect_failed(tool.wait(), 6, "found 1 difference in");
  }
  {  // no row says that: the rows differ though every change is applied
    auto tool = frozen("rebuild_copied");
    source().exec("alter table two alter n type int using n * 1 + 1");
    tool.kill(SIGCONT);
    expect_failed(tool.wait(), 1, "was altered on the source");
    source().exec("update two set n = n - 1");
  }
  const auto good = write_file("good.sql", "create index extra on one (n);\nupdate two set n = 0 where id = 1;\n");
  const auto bad = write_file("bad.sql", "update one set n = 5;\nselect nothing from nowhere;\n");
  expect_failed(rebuild({"--sql", good, "--sql", bad}), 1, "relation \"nowhere\" does not exist");
  expect_failed(rebuild({"--sql", "/not/there.sql"}), 2, "cannot be read");
  expect_failed(rebuild({"--before-swap", "echo no, says $PGBATON_DATABASE >&2; exit 3"}), 1, "no, says shop__g");
  expect_failed(rebuild({"--before-swap", "seq 1 9; echo and this; exit 3"}), 1,
                "ended with 3: stdout: 6 / 7 / 8 / 9 / and this");
  expect_failed(rebuild({"--before-swap", "echo out; echo err >&2; exit 3"}), 1, "ended with 3: err; stdout: out");
  expect_failed(rebuild({"--before-swap", "exit 3"}), 1, "ended with 3 and said nothing");
  expect_failed(rebuild({"--max-duration", "500ms"}, "rebuild_copied=sleep:1500"), 5, "--max-duration");
  expect_failed(rebuild({}, "rebuild_renamed=stop"), 1, "rebuild_renamed");
  {  // the slot goes with what was made, whatever the policy
    Load wal(source().conninfo(), 1, [](Load::Turn& turn) {
      turn.session.exec("select pg_logical_emit_message(false, 'noise', repeat('x', 500000))");
      std::this_thread::sleep_for(Milliseconds(50));
    });
    expect_failed(rebuild({"--wal-budget", "2MB", "--wal-policy", "drop"}, "rebuild_copied=sleep:2500"), 1,
                  "more than --wal-budget 2.0 MB: stopped");
  }
  expect_next_is_clean();
  const auto said = write_file("said", "");
  const auto result =
      rebuild({"--keep", "0", "--sql", good, "--after-swap", "echo $PGBATON_LIVE $PGBATON_GENERATION > " + said});
  EXPECT_EQ(result.code, 0) << result;
  EXPECT_THAT(read_file(said), StartsWith("shop "));
  EXPECT_EQ(target().number("select n from two where id = 1", "shop"), 0);
  EXPECT_EQ(target().number("select count(*) from pg_class where relname = 'extra'", "shop"), 1);
  // The new one serves already.
  const auto late = rebuild({"--keep", "0", "--after-swap", "exit 4"});
  EXPECT_EQ(late.code, 1) << late;
  EXPECT_THAT(late.err, HasSubstr("serves, but afterwards"));
  EXPECT_THAT(late.err, HasSubstr("stays live"));
  expect_served();
  expect_clean(0);
}

TEST_F(RebuildFailureTest, S48_TwoOverlapAndTheSwapIsBlocked) {
  next_version();
  {
    auto tool = frozen("rebuild_copied");
    const auto second = rebuild();
    EXPECT_EQ(second.code, 7) << second;
    EXPECT_LT(second.elapsed.count(), 5000);
    EXPECT_THAT(second.err, HasSubstr("pid " + std::to_string(tool.pid())));
    EXPECT_EQ(rebuild({"--rollback"}).code, 7);
    EXPECT_EQ(Tool::run(line("drop")).code, 1);
    tool.kill(SIGTERM);
    tool.kill(SIGCONT);
    const auto stopped = tool.wait();
    EXPECT_EQ(stopped.code, 1) << stopped;
    expect_served_on();
    expect_clean(0);
  }
  const Arguments briefly{"--swap-timeout", "1s"};
  {
    Session session(shop());
    session.exec("begin; create table prepared (id int); prepare transaction 'stuck'");
    expect_failed(rebuild(briefly), 5, "prepared transaction 'stuck'");
    session.exec("rollback prepared 'stuck'");
    expect_failed(rebuild({"--swap-timeout", "1s", "--readers", "wait"}), 5,
                  "pid " + std::to_string(session.backend_pid()));
    // Does not even take the signal.
    ASSERT_EQ(::kill(session.backend_pid(), SIGSTOP), 0);
    const auto result = rebuild(briefly);
    ASSERT_EQ(::kill(session.backend_pid(), SIGCONT), 0);
    EXPECT_EQ(result.code, 5) << result;
    EXPECT_THAT(result.err, HasSubstr("pid " + std::to_string(session.backend_pid())));
    expect_served_on();  // what was made goes with the next run: no database can be dropped while the session stands
  }
  EXPECT_TRUE(target().wait_until("select count(*) from pg_stat_activity where datname = 'shop'", "0"));
  const auto patient = rebuild({"--readers", "wait", "--keep", "0"});
  EXPECT_EQ(patient.code, 0) << patient;
  served_ = served_version();
  expect_next_is_clean();
}

TEST_F(RebuildFailureTest, S48_ServersDownAndDiskFull) {
  next_version();
  {
    auto tool = frozen("rebuild_copied", {"--give-up-after", "1s"});
    source().stop(StopMode::immediate);
    tool.kill(SIGCONT);
    const auto result = tool.wait();
    EXPECT_TRUE(result.code == 1 || result.code == 5) << result;
    expect_served_on();
    const auto again = rebuild();
    EXPECT_EQ(again.code, 1) << again;
    source().start();
  }
  expect_next_is_clean();
  {
    auto tool = frozen("rebuild_copied", {"--give-up-after", "1s"});
    target().stop(StopMode::immediate);
    tool.kill(SIGCONT);
    const auto result = tool.wait();
    EXPECT_NE(result.code, 0) << result;
    target().start();
    expect_served_on();
  }
  expect_next_is_clean();
  {  // all is renamed, and nothing committed
    auto tool = frozen("rebuild_renamed", {"--give-up-after", "1s"});
    target().stop(StopMode::immediate);
    tool.kill(SIGCONT);
    const auto result = tool.wait();
    EXPECT_NE(result.code, 0) << result;
    target().start();
    expect_served_on();
  }
  expect_next_is_clean();
  SmallDisk disk;
  ASSERT_TRUE(disk.mounted()) << "this test mounts a tmpfs, as root or by sudo";
  target().exec("create tablespace small location '" + disk.make_space() + "'");
  target().exec("alter database shop set tablespace small");
  create_filled("big", 20'000, 1000);
  const auto full = rebuild();
  expect_failed(full, 1, "No space left on device");
  ASSERT_TRUE(disk.grow());
  expect_next_is_clean();
  target().stop(StopMode::immediate);  // before its disk goes
}

// The chapter of README, word for word: its file, its commands, and what stands in its crontab line.
TEST_F(RebuildFailureTest, S48_TheChapterInReadme) {
  auto text = read_test_data("../../README.md");
  text = text.substr(text.find("\n### Rebuild\n"));
  text = text.substr(0, text.find("\n### ", 1));
  const auto replace = [](std::string in, const std::string& from, const std::string& to) {
    EXPECT_THAT(in, HasSubstr(from));
    for (std::size_t at = 0; (at = in.find(from, at)) != std::string::npos; at += to.size())
      in.replace(at, from.size(), to);
    return in;
  };
  // Nothing is owned by a superuser; the live database was not made by pgbaton.
  for (const auto* table : {"one", "two", "version"})
    source().exec(std::string(table == std::string("one") ? "create role shop_owner; " : "") + "alter table " + table +
                  " owner to shop_owner");
  for (const auto* sql : {"drop schema pgbaton cascade", "drop database shop", "create role shop_owner",
                          "create database shop owner shop_owner"})
    target().exec(sql);
  std::string file;
  std::vector<std::string> commands;
  int rights = 0;
  std::istringstream lines(text);
  for (std::string row; std::getline(lines, row);) {
    if (!row.starts_with("    ")) continue;
    row = row.substr(4);
    if (const std::string cron = "0 2 * * * /usr/local/bin/"; row.starts_with(cron)) row = row.substr(cron.size());
    if (row.starts_with("CREATE ROLE ") || row.starts_with("GRANT ")) {
      target().exec(row);
      ++rights;
    } else if (row.starts_with("pgbaton ")) {
      commands.push_back(row);
    } else
      file += row + "\n";
  }
  EXPECT_EQ(commands.size(), 5u);
  EXPECT_EQ(rights, 4);
  file = replace(file, "host=db1 dbname=shop user=pgbaton", source().conninfo());
  file = replace(file, "host=db2 dbname=shop user=pgbaton", target().conninfo("shop", "pgbaton"));
  file = replace(file, "/etc/pgbaton/mask.sql", write_file("mask.sql", "update two set n = 0;"));
  const auto path = write_file("app.yaml", file);
  const auto version = next_version();
  for (auto command : commands) {
    SCOPED_TRACE(command);
    command = replace(replace(command, "/etc/pgbaton/app.yaml", path), "pgbaton ", Tool::path() + " ");
    const auto log = write_file("log", "");
    EXPECT_EQ(std::system((command + " > " + log + " 2>&1").c_str()), 0) << read_file(log);
    if (command.find("--max-duration") != std::string::npos) {
      EXPECT_THAT(read_file(log), IsEmpty());
    }
  }
  EXPECT_EQ(served_version(), version);
  EXPECT_EQ(target().number("select sum(n) from two", "shop"), 0);
  expect_clean(2);  // one of them is the database that was there before
}

// What would only show after hours of copying.
TEST_F(RebuildFailureTest, FilesAndCommandsAreCheckedBeforehand) {
  const auto good = write_file("good.sql", "select 1;"), plain = write_file("plain.sh", "exit 0");
  const auto fine = Tool::run(line("check", {"--rebuild", "--sql", good, "--before-swap", "sh " + plain, "--after-swap",
                                             "if true; then X=1 no_such_thing; fi"}));
  EXPECT_EQ(fine.code, 0) << fine;
  EXPECT_THAT(fine.out, HasSubstr("a rebuild can start"));
  const std::vector<std::tuple<std::string, std::string, std::string, std::string>> bad{
      {"--sql", "/not/there.sql", "rebuild.sql", "No such file"},
      {"--sql", "/tmp", "rebuild.sql", "it is a directory"},
      {"--before-swap", plain + " now", "rebuild.hook", "is no executable file"},
      {"--after-swap", "no_such_program --now", "rebuild.hook", "sh finds no no_such_program"},
      {"--after-swap", "if true", "rebuild.hook", "sh cannot parse it"},
  };
  for (const auto& [option, value, id, says] : bad) {
    SCOPED_TRACE(value);
    const auto check = Tool::run(line("check", {"--rebuild", option, value}));
    EXPECT_EQ(check.code, 3) << check;
    EXPECT_THAT(check.out, ::testing::AllOf(HasSubstr(id), HasSubstr(says), HasSubstr("a rebuild would be refused")));
    const auto refused = rebuild({option, value});
    EXPECT_EQ(refused.code, option == "--sql" ? 2 : 3) << refused;
    EXPECT_THAT(refused.err, HasSubstr(says));
  }
  // The same from a file; a rollback needs none of it.
  const auto file = write_file("app.yaml", "sql: [/not/there.sql, " + good + "]\nafter-swap: /not/there\n");
  const auto check = Tool::run(line("check", {"--rebuild", "--config", file}));
  EXPECT_EQ(check.code, 3) << check;
  EXPECT_THAT(check.out, ::testing::AllOf(HasSubstr("rebuild.sql"), HasSubstr("rebuild.hook")));
  EXPECT_EQ(rebuild({"--config", write_file("hooks.yaml", "before-swap: /not/there\nafter-swap: /not/there\n")}).code,
            3);
  expect_served_on();
  expect_clean(0);
  ASSERT_EQ(rebuild().code, 0);
  const auto back = rebuild({"--rollback", "--config", file});
  EXPECT_EQ(back.code, 0) << back;
  expect_served_on();
  expect_clean(1);
}

TEST_F(RebuildFailureTest, MissingRightsAreNamed) {
  target().exec("create role plain login");
  const auto check = Tool::run(line("check", {"--rebuild", "--json"}, "plain"));
  EXPECT_EQ(check.code, 3) << check;
  for (const auto* id : {"rebuild.createdb", "rebuild.owner", "rebuild.signal"}) EXPECT_THAT(check.out, HasSubstr(id));
  const auto refused = Tool::run(line("rebuild", {}, "plain"));
  EXPECT_EQ(refused.code, 3) << refused;
  EXPECT_THAT(refused.err, HasSubstr("may neither create nor rename databases"));
  EXPECT_THAT(refused.err, HasSubstr("`pgbaton check --rebuild` lists"));
  // Of a database that is still to be made, too: whom the tables are to belong to.
  source().exec("create role app; create extension citext; alter table two owner to app");
  target().exec(
      "create role half login createdb; create role app; grant pg_signal_backend, postgres to half; grant create on "
      "database postgres to half");
  const auto fresh = [&](const std::string& command, const Arguments& more) {
    Arguments all{command, "--source", source().conninfo(), "--target", target().conninfo("fresh", "half")};
    all.insert(all.end(), more.begin(), more.end());
    return Tool::run(all);
  };
  const auto half = fresh("check", {"--rebuild"});
  EXPECT_EQ(half.code, 3) << half;
  EXPECT_THAT(half.out, HasSubstr(R"(GRANT "app" TO "half")"));
  EXPECT_THAT(half.out, HasSubstr(R"(GRANT "half" TO "app")"));
  EXPECT_EQ(fresh("rebuild", {}).code, 3) << "the same, when it has been made";
  EXPECT_EQ(fresh("check", {"--rebuild", "--no-owner"}).code, 0);
  source().exec("alter table two owner to postgres; drop role app");
  target().exec("create role able login createdb; grant pg_signal_backend to able; grant postgres to able");
  EXPECT_EQ(Tool::run(line("check", {"--rebuild"}, "able")).code, 0);
  const auto able = Tool::run(line("rebuild", {"--keep", "0"}, "able"));
  EXPECT_EQ(able.code, 0) << able;
  const auto follow = Tool::run(line("rebuild", {"--mode", "follow"}, "able"));
  EXPECT_EQ(follow.code, 3) << "it would serve without foreign keys: " << follow;
  EXPECT_THAT(follow.err, HasSubstr("session_replication_role"));
  // What it is told of another role's session is little, and enough to end it; a superuser's stays, and is waited for
  // without keeping new connections waiting.
  target().exec("create role reader login; create role boss login superuser");
  const auto shop_as = [this](const std::string& user) { return Session(target().conninfo("shop", user)); };
  auto reader = shop_as("reader");
  auto boss = std::make_unique<Session>(shop_as("boss"));
  auto rebuild = Tool(line("rebuild", {"--keep", "0", "--swap-timeout", "8s"}, "able"));
  std::chrono::milliseconds longest{0};
  while (rebuild.running()) {
    const auto begin = std::chrono::steady_clock::now();
    shop_as("reader");
    const auto took = std::chrono::steady_clock::now() - begin;
    longest = std::max(longest, std::chrono::duration_cast<std::chrono::milliseconds>(took));
    std::this_thread::sleep_for(Milliseconds(100));
  }
  const auto blocked = rebuild.wait();
  EXPECT_EQ(blocked.code, 5) << blocked;
  EXPECT_THAT(blocked.err, HasSubstr("(boss "));
  EXPECT_THAT(blocked.err, ::testing::Not(HasSubstr("(reader ")));
  EXPECT_LT(longest.count(), 1500) << "a new connection waited for the swap";
  boss.reset();
  const auto swapped = Tool::run(line("rebuild", {"--keep", "0"}, "able"));
  EXPECT_EQ(swapped.code, 0) << swapped;
  const auto ready = Tool::run(line("check", {"--rebuild"}));
  EXPECT_EQ(ready.code, 0) << ready;
  EXPECT_THAT(ready.out, ::testing::Not(::testing::AnyOf(HasSubstr("`finish`"), HasSubstr("_pgbaton_lsn")))) << ready;
  const auto same = Tool::run(line("check", {"--rebuild", "--maintenance-db", "shop"}));
  EXPECT_EQ(same.code, 3) << same;
  EXPECT_THAT(same.out, HasSubstr("--maintenance-db"));
  expect_clean(0);
}

}  // namespace
}  // namespace pgbaton::testing
