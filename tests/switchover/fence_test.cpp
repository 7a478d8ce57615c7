// What the fence holds, and when it goes: one pair of servers through switchover, rollback and finish.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "switchover/clients.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

class FenceTest : public PairTest {
 protected:
  ClusterOptions target_options() const override { return {.settings = {{"max_prepared_transactions", "5"}}}; }
  void SetUp() override {
    PairTest::SetUp();
    source().exec("create database far");
    source().exec("create table remote (id int, v int); insert into remote values (1000, 1)", "far");
    // Rows of `ev_local` are changed by statements on three parents: a foreign table, one between them, and one that
    // is made an extension's.
    source().exec(
        "create unlogged table scratch (id int); create table ddl (id serial primary key, tag text);"
        "create table account (id bigint primary key, n int); insert into account select g, 0 from generate_series(1, "
        "10) g;"
        "create extension postgres_fdw; create server far foreign data wrapper postgres_fdw options (host "
        "'127.0.0.1', port '" +
        std::to_string(source().port()) +
        "', dbname 'far'); create user mapping for postgres server far options (user 'postgres', password_required "
        "'false');"
        "create foreign table ev (id int not null, v int) server far options (table_name 'remote');"
        "create table middle () inherits (ev);"
        "create table theirs (v int);"
        "create table ev_local (primary key (id)) inherits (middle, theirs); insert into ev_local values (1, 0)");
    clone_until_caught_up();
    for (auto* server : {&source(), &target()})
      server->exec(
          "alter extension postgres_fdw add table theirs;"
          "create function log_ddl() returns event_trigger language plpgsql as "
          "$$begin insert into public.ddl (tag) values (tg_tag); end$$;"
          "create event trigger log_ddl on ddl_command_end execute function log_ddl();"
          "create event trigger log_drop on sql_drop execute function log_ddl()");
  }
  ToolResult switch_over(const Arguments& more = {}, const Environment& environment = {}) {
    return run("switchover", more, environment, Milliseconds(120'000));
  }
  // "" when it goes through.
  static std::string refusal(Cluster& server, const std::string& statement) {
    auto session = server.session();
    try {
      session.exec("begin; " + statement);
    } catch (const std::exception& error) {
      return error.what();
    }
    session.exec("rollback");
    return "";
  }
  static void expect_refused(Cluster& server, const std::string& when) {
    for (const auto* statement :
         {"update ev set v = 7 where id < 1000", "delete from ev where id < 1000", "update middle set v = 7",
          "insert into ev values (5, 5)", "update ev_local set v = 7", "update theirs set v = 7", "truncate middle"})
      EXPECT_THAT(refusal(server, statement), HasSubstr("is being switched over to another server"))
          << when << ": " << statement;
  }
  static std::string fence_left(Cluster& server) {
    return server.scalar(
        "select count(*) || '/' || (select count(*) from pg_namespace where nspname = 'pgbaton_fence') "
        "from pg_trigger where tgname = 'pgbaton_fence'");
  }
};

TEST_F(FenceTest, HoldsEverythingThroughWhichRowsChangeAndGoesWithTheReplica) {
  source().exec("alter event trigger log_ddl enable always");
  const auto loud = switch_over({"--dry-run"});
  EXPECT_EQ(loud.code, 3) << loud;
  EXPECT_THAT(loud.out, HasSubstr("event trigger log_ddl"));
  EXPECT_THAT(loud.out, HasSubstr("ALTER EVENT TRIGGER log_ddl ENABLE; on the source")) << loud;
  source().exec("alter event trigger log_ddl enable");
  const auto stopped = switch_over({"--json"}, {{"PGBATON_FAILPOINTS", "switchover_finish=stop"}});
  EXPECT_EQ(stopped.code, 1) << stopped;
  const auto document = Json::parse(stopped.out, nullptr, false);
  EXPECT_EQ(document["failed_step"], "finish") << stopped;
  EXPECT_EQ(document["error"]["exit_code"], 1) << stopped;
  EXPECT_THAT(document["error"]["message"].get<std::string>(), HasSubstr("step finish")) << stopped;
  EXPECT_EQ(refusal(source(), "update ev set v = 7 where id < 1000"), "");
  EXPECT_EQ(fence_left(source()), "0/0");
  expect_refused(target(), "a switchover that was given up");

  ASSERT_EQ(switch_over().code, 0);
  expect_refused(source(), "after the flip");
  EXPECT_EQ(refusal(target(), "update only ev_local set v = 7"), "");
  const auto again = switch_over({"--dry-run"});
  EXPECT_EQ(again.code, 0) << again;
  EXPECT_EQ(again.out, "already switched over: nothing was changed\n");
  EXPECT_EQ(switch_over({"--undo"}).code, 2);
  expect_refused(source(), "an undo that was refused");
  // Known as what it was, also to the stream that leads back. So is a load behind the back of the fence.
  source().exec(
      "set session_replication_role = replica; alter table account disable trigger all; alter table account enable "
      "trigger all; insert into account values (12, 0); delete from account where id = 12");
  target().exec("insert into scratch values (1)");
  const auto looked = switch_over({"--rollback", "--dry-run", "--json"});
  EXPECT_EQ(looked.code, 3) << looked;
  std::string told;
  const auto report = Json::parse(looked.out, nullptr, false);
  for (const auto& finding : report["findings"])
    if (finding["object"] == "\"public\".\"scratch\"")
      told += finding["id"].get<std::string>() + ": " + finding["remedy"].get<std::string>() + "\n";
  EXPECT_THAT(told, StartsWith("table.skipped: Move them by hand, or ALTER TABLE \"public\".\"scratch\" SET LOGGED"))
      << looked;
  EXPECT_EQ(std::ranges::count(told, '\n'), 1) << looked;
  EXPECT_THAT(looked.out, HasSubstr("its fence was put out of action")) << looked;
  source().exec("set session_replication_role = replica; alter table account enable always trigger pgbaton_fence");
  target().exec("delete from scratch");
  auto session = target().session();
  session.exec("begin; insert into account values (11, 0); prepare transaction 'open'");
  const auto refused = switch_over({"--rollback"});
  EXPECT_EQ(refused.code, 3) << refused;
  EXPECT_THAT(refused.err, HasSubstr("`pgbaton switchover --rollback --dry-run`")) << refused;
  session.exec("rollback prepared 'open'");

  ASSERT_EQ(switch_over({"--rollback"}).code, 0);
  expect_refused(target(), "after the rollback");
  EXPECT_EQ(refusal(source(), "update only ev_local set v = 7"), "");
  const auto back_again = switch_over({"--rollback", "--dry-run"});
  EXPECT_EQ(back_again.code, 0) << back_again;
  EXPECT_EQ(back_again.out, "the application works on the source: nothing was changed\n");
  const auto undone = switch_over({"--undo"});
  EXPECT_EQ(undone.code, 0) << undone;
  EXPECT_THAT(undone.out, HasSubstr("the target stays closed until finish or drop")) << undone;
  EXPECT_THAT(undone.out, HasSubstr("there is no fence on the source")) << undone;
  expect_refused(target(), "an undo of nothing");
  const auto finished = run("finish");
  EXPECT_EQ(finished.code, 0) << finished;
  EXPECT_THAT(finished.out, HasSubstr("fence on the target")) << finished;
  for (auto* server : {&source(), &target()}) {
    EXPECT_EQ(server->scalar("select coalesce(string_agg(tag, ', '), '') from ddl"), "") << "of pgbaton's own DDL";
    EXPECT_EQ(fence_left(*server), "0/0");
    EXPECT_TRUE(takes_writes(*server));
  }
}

}  // namespace
}  // namespace pgbaton::testing
