// Edges of the command line that a hostile tester has found, many on one pair of servers: one database each.
#include <signal.h>

#include <fstream>
#include <regex>

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
  void names_that_nobody_knows();
  void passwords_in_no_message();
  void conditions_that_end_in_a_comment();
  void schemas_and_tables_of_others();
  void writers_that_lose_their_place();
  void source_that_is_gone();
  void slot_that_is_gone();
  void identities_come_back();
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
  for (int i = 1; i <= 20; ++i) {
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
  EXPECT_EQ(target().number("select count(*) from k", "polite"), 21);
  succeed("polite", "drop");
  EXPECT_EQ(source().scalar("select relreplident from pg_class where relname = 'k'", "polite"), "d");

  source().exec("create table never (a int)", "polite");
  reader.exec("begin; select count(*) from never");
  expect_refused(run_in("polite", "clone", {"--keyless", "full", "--slot-wait", "1s", "--include-table", "never"}), 5,
                 {"REPLICA IDENTITY FULL", "\"public\".\"never\"", "pid " + std::to_string(reader.backend_pid()),
                  "--slot-wait waits longer"});
  reader.exec("rollback");
  EXPECT_THAT(leftovers(source().conninfo("polite")), IsEmpty());
}

// G8: a clone that has nothing left to copy still says what of the slot.
void EdgesTest::slot_that_is_gone() {
  create("slotless", "create table t (id int primary key); create unlogged table \"Cache\" (id int primary key)");
  succeed("slotless", "clone", {"--until", "caught-up"});
  const auto nothing = run_in("slotless", "verify", {"--include-table", "\"Cache\""});
  expect_refused(nothing, 2, {"nothing was compared: unlogged", "\"public\".\"Cache\""});
  EXPECT_THAT(nothing.out, AllOf(HasSubstr("not compared: public.\"Cache\": "), Not(HasSubstr("no differences"))));
  source().exec("select pg_drop_replication_slot('pgbaton_slotless')");
  expect_refused(run_in("slotless", "clone"), 4,
                 {"slot \"pgbaton_slotless\" does not exist on the source", "clone --restart"});
  const auto status = run_in("slotless", "status");
  EXPECT_THAT(status.out, AllOf(HasSubstr("slot        there is none"), HasSubstr("lag         not known"),
                                HasSubstr("does not exist on the source")))
      << status;
  succeed("slotless", "drop");
}

// G9: what --keyless full has set goes with the replica, as it was, on both sides, and not where others rely on it.
void EdgesTest::identities_come_back() {
  create("lent",
         "create table plain (a int); create table nothing (id int primary key); create table late (a int, b int not "
         "null, primary key (a) deferrable); alter table nothing replica identity nothing; create table chosen (a int "
         "not null, g int not null generated always as (a) stored); create unique index g on chosen (g); alter table "
         "chosen replica identity using index g; create table relied_on (a int); insert into plain values (1)");
  const auto plan = run_in("lent", "clone", {"--keyless", "full", "--dry-run"});
  EXPECT_THAT(plan.out, Not(HasSubstr("pgbaton_lent__ins  late"))) << plan;
  const auto identities = [&](Cluster& server) {
    return server.scalar(
        "select string_agg(relname || ' ' || relreplident::text, ', ' order by relname) from pg_class where relkind = "
        "'r' "
        "and relnamespace = 'public'::regnamespace",
        "lent");
  };
  const auto before = identities(source());
  EXPECT_EQ(before, "chosen i, late d, nothing n, plain d, relied_on d");
  const auto killed = Tool::run(in("lent", "clone", {"--keyless", "full"}), Milliseconds(60'000),
                                {{"PGBATON_FAILPOINTS", "identities_set=kill"}});
  EXPECT_EQ(killed.code, 137) << killed;
  EXPECT_THAT(run_in("lent", "check", {"--keyless", "full"}).out,
              HasSubstr("REPLICA IDENTITY FULL is of no use with a generated column"));
  succeed("lent", "clone", {"--keyless", "full", "--until", "caught-up"});
  EXPECT_EQ(identities(source()), "chosen i, late f, nothing f, plain f, relied_on f")
      << "FULL has no generated column";
  source().exec("create publication others for table relied_on; update plain set a = 2", "lent");
  succeed("lent", "follow", {"--until", "caught-up"});
  EXPECT_EQ(target().scalar("select a from plain", "lent"), "2");
  const auto finished = run_in("lent", "finish");
  EXPECT_EQ(finished.code, 0) << finished;
  EXPECT_EQ(identities(source()), "chosen i, late d, nothing n, plain d, relied_on f");
  EXPECT_EQ(identities(target()), "chosen i, late d, nothing n, plain d, relied_on d");
  EXPECT_THAT(finished.err, HasSubstr("relied_on keeps REPLICA IDENTITY FULL (keyless: full): publication others"));
  EXPECT_THAT(finished.out, HasSubstr("REPLICA IDENTITY FULL of public.nothing on the source, which is nothing again"));
  source().exec("delete from relied_on; drop publication others; update plain set a = 3", "lent");
}

// Nothing is claimed that was not done; a repeated end is none the less one.
void EdgesTest::names_that_nobody_knows() {
  create("names", "create table t (id int primary key); insert into t values (1)");
  const auto nothing = run_in("names", "finish");
  EXPECT_EQ(nothing.code, 0) << nothing;
  EXPECT_THAT(nothing.out, HasSubstr("there is no replica named names, and no slot of it: nothing to finish"));
  succeed("names", "clone", {"--until", "caught-up"});
  Arguments elsewhere{"finish",   "--name",           "names", "--source", source().conninfo("names"),
                      "--target", target().conninfo()};
  expect_refused(Tool::run(elsewhere), 2,
                 {"slot pgbaton_names on the source: nothing was finished", "Look at --target"});
  for (const auto* command : {"finish", "follow"}) {
    Arguments other{
        command, "--name", "other", "--source", source().conninfo("names"), "--target", target().conninfo("names")};
    expect_refused(Tool::run(other), 2, {"no replica named other on this target; it knows: names"});
  }
  Arguments slip{
      "drop", "--name", "nmaes", "--source", source().conninfo("names"), "--target", target().conninfo("names")};
  expect_refused(Tool::run(slip), 0, {"nothing was removed: there is no replica named nmaes", "it knows: names"});
  Arguments without{"drop", "--source", source().conninfo("names"), "--target", target().conninfo("names")};
  expect_refused(Tool::run(without), 2, {"no replica named default on this target; it knows: names"});
  EXPECT_EQ(target().scalar("select name from pgbaton.replica", "names"), "names");
  succeed("names", "finish");
  succeed("names", "finish");
  const auto dropped = run_in("names", "drop");
  EXPECT_EQ(dropped.code, 0) << dropped;
  EXPECT_THAT(dropped.out, HasSubstr("nothing of a replica named names is on either side: nothing to remove"));
}

void expect_nothing_told(const Arguments& arguments) {
  const auto result = Tool::run(arguments);
  EXPECT_EQ(result.code, 2) << arguments.back() << result;
  EXPECT_THAT(result.out + result.err, AllOf(Not(HasSubstr("S3")), Not(HasSubstr("cret")), Not(HasSubstr("w0rd"))))
      << arguments.back();
}

void EdgesTest::passwords_in_no_message() {
  const auto file = target().directory() + "/uri.yaml";
  for (const std::string conninfo :
       {"postgres://u:p@S3cret:w0rd@127.0.0.1:1/db", "postgres://u:pa/S3cret@127.0.0.1:1/db",
        "postgres://u:12/S3cret@127.0.0.1:1/db", "u:S3cret@127.0.0.1/db", "postgress://u:S3cret@h/db",
        "postgres://u:%S3cret@h/db", "dbname=postgres://u:S3cret@127.0.0.1:1/db", "host=h password=two S3cret",
        "host=h password=a \"S3\"cret", "host=h password='S3cret", "dbname='password=S3cret'"}) {
    std::ofstream(file) << "source: \"" << std::regex_replace(conninfo, std::regex("\""), "\\\"") << "\"\n";
    for (const Arguments& arguments : {Arguments{"check", "--source", conninfo}, {"check", "--config", file}})
      expect_nothing_told(arguments);
  }
  for (const std::string conninfo : {"u:S3cret@127.0.0.1/db", "host=h password=S3cret", "mysql://S3cret/db"})
    for (const Arguments& arguments : {Arguments{"check", "--source=x", conninfo},
                                       {"check", "--name", conninfo},
                                       {"follow", "--until-lsn", conninfo},
                                       {"check", "--log-level", conninfo},
                                       {"clone", "--memory", conninfo},
                                       {"clone", "--jobs", conninfo},
                                       {"follow", "--tombstone-retention", conninfo},
                                       {"wait", "--timeout", conninfo},
                                       {"clone", "--schema", conninfo},
                                       {conninfo}})
      expect_nothing_told(arguments);
  expect_refused(Tool::run({"clone", "--memory", "18446744073709551615"}), 2, {"is more than"});
}

void EdgesTest::conditions_that_end_in_a_comment() {
  create("commented",
         "create table t (id int primary key, v int); insert into t select g, 0 from generate_series(1, 20) g");
  const auto file = target().directory() + "/where.yaml";
  const auto with = [&](const std::string& condition) {
    std::ofstream(file) << "tables:\n  - name: t\n    where: \"" << condition << "\"\n";
    return run_in("commented", "clone", {"--config", file, "--until", "caught-up"});
  };
  for (const std::string bad : {"id > 5) or (id < 3", "(id > 5", "id > 5 /* large", "id > 5; drop table t"})
    expect_refused(with(bad), 2, {"tables: where of t is no condition by itself"});
  expect_refused(run_in("commented", "verify", {"--where", "true) or (true"}), 2,
                 {"--where is no condition by itself"});
  const auto result = with("id > 5 -- the large ones");
  EXPECT_EQ(result.code, 0) << result;
  source().exec("insert into t values (4711, 1), (-1, 1)", "commented");
  succeed("commented", "follow", {"--until", "caught-up"});
  EXPECT_EQ(target().number("select count(*) from t", "commented"), 16);
  succeed("commented", "verify");
  succeed("commented", "verify", {"--where", "id > 10 -- larger still"});
  succeed("commented", "finish");
}

void EdgesTest::schemas_and_tables_of_others() {
  create("taken",
         "create schema pgbaton; create table pgbaton.users (id int primary key); create table t (id int primary "
         "key); create table free (id int primary key)");
  const auto check = run_in("taken", "check");
  EXPECT_EQ(check.code, 0) << check;
  EXPECT_THAT(check.out, HasSubstr("the source has a schema of this name that pgbaton did not make: it is left out"));
  succeed("taken", "clone", {"--until", "caught-up", "--include-table", "t"});
  Arguments second = in("taken", "clone", {"--until", "caught-up"});
  second[2] = "second";
  expect_refused(Tool::run(second), 3,
                 {"\"public\".\"t\"", "replica taken of this target has these tables", "pgbaton drop --name taken"});
  succeed("taken", "drop");
}

// Another process has taken the replica over, or dropped it; or the target cannot be written.
void EdgesTest::writers_that_lose_their_place() {
  create("lost", "create table t (id int primary key, v text)");
  for (const auto* command : {"clone", "follow"}) {
    Tool writer(std::string(command) == "clone" ? in("lost", "clone", {"--follow"}) : in("lost", "follow", {}));
    ASSERT_TRUE(writer.wait_for_stderr("streaming from slot")) << writer.err();
    succeed("lost", "drop", {"--take-over"});
    const auto ended = writer.wait();
    EXPECT_EQ(ended.code, 7) << ended;
    EXPECT_THAT(ended.err, HasSubstr("was dropped")) << ended;
    target().exec("drop table t", "lost");
    if (std::string(command) == "clone") {
      succeed("lost", "clone");
    }
  }
  target().exec("drop schema if exists pgbaton cascade", "lost");

  source().exec("insert into t select g, repeat('x', 1000) from generate_series(1, 1000) g", "lost");
  Tool copying(in("lost", "clone", {"--max-rate", "20kB"}));
  ASSERT_TRUE(target().wait_until("select exists (select from pg_stat_progress_copy where tuples_processed > 0)", "t",
                                  Milliseconds(30'000), "lost"))
      << copying.err();
  EXPECT_EQ(run_in("lost", "drop").code, 7) << "its writer runs";
  succeed("lost", "drop", {"--take-over"});
  const auto cut_off = copying.wait(Milliseconds(20'000));
  EXPECT_EQ(cut_off.code, 7) << cut_off;
  EXPECT_THAT(target_leftovers(target().conninfo("lost")), IsEmpty());
  EXPECT_THAT(leftovers(source().conninfo("lost")), IsEmpty());
  target().exec("drop table t", "lost");

  Tool clone(in("lost", "clone", {"--max-rate", "20kB", "--on-failure", "drop"}));
  ASSERT_TRUE(target().wait_until("select exists (select from pg_stat_progress_copy where tuples_processed > 0)", "t",
                                  Milliseconds(30'000), "lost"))
      << clone.err();
  for (int i = 0; i < 10 && clone.running(); ++i) {
    target().exec(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = 'lost' and application_name "
        "like 'pgbaton%'");
    std::this_thread::sleep_for(Milliseconds(250));
  }
  clone.kill(SIGTERM);
  const auto failed = clone.wait();
  EXPECT_NE(failed.code, 0) << failed;
  EXPECT_THAT(target_leftovers(target().conninfo("lost")), IsEmpty()) << failed;
  EXPECT_EQ(source().number("select count(*) from pg_replication_slots where database = 'lost'"), 0) << failed;
}

// Last: the source goes.
void EdgesTest::source_that_is_gone() {
  create("gone", "create table t (id int primary key); insert into t values (1)");
  succeed("gone", "clone", {"--until", "caught-up"});
  expect_refused(run_in("gone", "drop", {"--source-is-gone"}), 2, {"the source answers", "removes both sides"});
  const auto drop_by = [&](const std::string& conninfo) {
    return Tool::run(
        {"drop", "--name", "gone", "--source", conninfo, "--target", target().conninfo("gone"), "--source-is-gone"});
  };
  expect_refused(drop_by(source().conninfo("postgres")), 2,
                 {"the source's cluster answers (as database \"postgres\")", "Name database \"gone\" in --source"});
  for (const std::string wrong : {" dbname=nowhere", " user=nobody_of_this_name"})
    expect_refused(drop_by(source().conninfo("gone") + wrong), 2,
                   {"a server answers at the source's address", "give no --source"});
  EXPECT_EQ(target().number("select count(*) from pgbaton.replica", "gone"), 1);
  source().stop();
  const auto half = run_in("gone", "drop");
  EXPECT_EQ(half.code, 1) << half;
  EXPECT_THAT(half.out, HasSubstr("pgbaton drop --name gone --source-is-gone"));
  EXPECT_EQ(target().number("select count(*) from pgbaton.replica", "gone"), 1);
  const auto dropped = Tool::run({"drop", "--name", "gone", "--target", target().conninfo("gone"), "--source-is-gone"});
  EXPECT_EQ(dropped.code, 0) << dropped;
  EXPECT_THAT(dropped.err, HasSubstr("should the source come back"));
  EXPECT_THAT(target_leftovers(target().conninfo("gone")), IsEmpty());
  EXPECT_EQ(target().number("select count(*) from t", "gone"), 1);
}

TEST_F(EdgesTest, OfTheCommandLine) {
  identity_full_lets_the_application_go_first();
  names_that_nobody_knows();
  conditions_that_end_in_a_comment();
  schemas_and_tables_of_others();
  passwords_in_no_message();
}

TEST_F(EdgesTest, OfProcessesThatEnd) {
  writers_that_lose_their_place();
  identities_come_back();
  slot_that_is_gone();
  source_that_is_gone();
}

TEST_F(EdgesTest, StandbyAsTarget) {
  source().exec("create table t (id int primary key)");
  clone_until_caught_up();
  const Cluster standby(target(), {});
  ASSERT_TRUE(standby.wait_until("select count(*) from pgbaton.replica", "1"));
  for (const auto* command : {"follow", "drop", "clone", "verify", "finish", "sequences"}) {
    const auto result = Tool::run({command, "--source", source().conninfo(), "--target", standby.conninfo()});
    expect_refused(result, 3, {"the target is a standby", "Promote it, or give the primary's connection string"});
    EXPECT_THAT(result.err, Not(HasSubstr("XX000")));
  }
}

}  // namespace
}  // namespace pgbaton::testing
