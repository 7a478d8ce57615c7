// `check`: all it can find as a golden document, each blocker alone, that it changes nothing; the application (S41).
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::ordered_json;
using Ids = std::set<std::string>;

class CheckTest : public PairTest {
 protected:
  ClusterOptions source_options() const override { return options_of_both(); }
  ClusterOptions target_options() const override { return options_of_both(); }
  static ClusterOptions options_of_both() {
    return {.settings = {{"allow_in_place_tablespaces", "on"}, {"autovacuum", "off"}}};
  }
  Json findings(const std::string& from, const std::string& to, const Arguments& more, int expected_code) {
    Arguments all{"check", "--json", "--source", from};
    if (!to.empty()) all.insert(all.end(), {"--target", to});
    all.insert(all.end(), more.begin(), more.end());
    const auto result = Tool::run(all);
    EXPECT_EQ(result.code, expected_code) << result;
    auto document = Json::parse(result.out);
    for (const auto& finding : document.value("findings", Json::array())) {
      EXPECT_TRUE(finding.at("severity") == "note" || finding.at("remedy") != "") << finding;
      EXPECT_NE(finding.at("object"), "") << finding;
    }
    return document;
  }
};

Ids ids(const Json& document, const std::string& severity) {
  Ids found;
  for (const auto& finding : document.value("findings", Json::array()))
    if (finding.at("severity") == severity) found.insert(finding.at("id").get<std::string>());
  return found;
}

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

// ---- each blocker alone

struct Case {
  Ids expected;
  std::vector<std::string> source, target;  // statements that bring it about
  std::vector<std::string> undo_source, undo_target;
  Arguments more{};
  std::string source_user = "postgres", target_user = "postgres", target_database = "postgres";
};

const Case kCases[] = {
    {{"target.role_missing"},
     {"create role lonely; alter table t owner to lonely"},
     {},
     {"alter table t owner to postgres; drop role lonely"},
     {}},
    {{"target.extension_missing"},
     {"insert into pg_extension select 99999, 'ghost', 10, 2200, false, '1.0', null, null"},
     {},
     {"delete from pg_extension where extname = 'ghost'"},
     {}},
    {{"target.tablespace_missing"},
     {"create tablespace away location ''", "alter table t set tablespace away"},
     {},
     {"alter table t set tablespace pg_default", "drop tablespace away"},
     {}},
    {{"target.collation_missing"},
     {"set allow_system_table_mods = on; create collation pg_catalog.odd from \"C\"; create table c (t text collate "
      "odd)"},
     {},
     {"drop table c; set allow_system_table_mods = on; drop collation pg_catalog.odd"},
     {}},
    {{"source.large_objects"}, {"select lo_create(4711)"}, {}, {"select lo_unlink(4711)"}, {}},
    {{"source.publication_exists"}, {"create publication pgbaton"}, {}, {"drop publication pgbaton"}, {}},
    {{"source.slot_exists"},
     {"select pg_create_logical_replication_slot('pgbaton', 'pgoutput')"},
     {},
     {"select pg_drop_replication_slot('pgbaton')"},
     {}},
    {{"target.table_exists"}, {}, {"create table t (id int)"}, {}, {"drop table t"}},
    {{"pair.encoding"},
     {},
     {"create database ascii encoding 'SQL_ASCII' locale 'C' template template0"},
     {},
     {"drop database ascii"},
     {},
     "postgres",
     "postgres",
     "ascii"},
    {{"local.pg_dump"}, {}, {}, {}, {}, {"--pg-dump", "/nonexistent/pg_dump"}},
    // the target's own tables
    {{"target.table_missing"}, {}, {}, {}, {}, {"--schema", "none"}},
    {{"target.table_not_empty"},
     {},
     {"create table t (id int primary key, v int); insert into t values (1, 1)"},
     {},
     {"drop table t"},
     {"--schema", "none"}},
    {{"target.column_missing"},
     {},
     {"create table t (id int primary key)"},
     {},
     {"drop table t"},
     {"--schema", "none"}},
    {{"target.table_owner"},
     {},
     {"create table t (id int primary key, v int); grant all on t to stranger; grant create on database postgres to "
      "stranger"},
     {},
     {"drop table t; revoke create on database postgres from stranger"},
     {"--schema", "none"},
     "postgres",
     "stranger"},
    // rights
    {{"source.replication_right"}, {"grant postgres to plain"}, {}, {"revoke postgres from plain"}, {}, {}, "plain"},
    {{"source.publication_right"},
     {"alter table t owner to stranger"},
     {},
     {"alter table t owner to postgres"},
     {},
     {},
     "stranger"},
    {{"table.owner"},
     {"grant create on database postgres to stranger; grant select on t to stranger"},
     {},
     {"revoke create on database postgres from stranger; revoke select on t from stranger"},
     {},
     {},
     "stranger"},
    {{"table.owner", "table.select_right"},
     {"grant create on database postgres to stranger"},
     {},
     {"revoke create on database postgres from stranger"},
     {},
     {},
     "stranger"},
    {{"table.row_security"},
     {"grant create on database postgres to stranger; alter table t owner to stranger; alter table t enable row level "
      "security, force row level security"},
     {},
     {"alter table t owner to postgres; alter table t disable row level security, no force row level security; revoke "
      "create on database postgres from stranger"},
     {},
     {},
     "stranger"},
    {{"target.create_right"},
     {},
     {"grant create on schema public to stranger"},
     {},
     {"revoke create on schema public from stranger"},
     {"--no-owner"},
     "postgres",
     "stranger"},
    {{"target.schema_right"},
     {},
     {"grant create on database postgres to stranger"},
     {},
     {"revoke create on database postgres from stranger"},
     {"--no-owner"},
     "postgres",
     "stranger"},
    {{"target.role_membership"},
     {},
     {"grant create on database postgres to stranger; grant create on schema public to stranger"},
     {},
     {"revoke create on database postgres from stranger; revoke create on schema public from stranger"},
     {},
     "postgres",
     "stranger"},
};

TEST_F(CheckTest, EachBlockerAlone) {
  for (auto* cluster : {&source(), &target()})
    cluster->exec("create role stranger login replication; create role plain login");
  source().exec("create table t (id int primary key, v int); insert into t values (1, 1)");
  EXPECT_EQ(ids(findings(source().conninfo(), target().conninfo(), {}, 0), "blocker"), Ids{});
  for (const auto& one : kCases) {
    SCOPED_TRACE(*one.expected.begin());
    for (const auto& sql : one.source) source().exec(sql);
    for (const auto& sql : one.target) target().exec(sql);
    const auto document = findings(source().conninfo("postgres", one.source_user),
                                   target().conninfo(one.target_database, one.target_user), one.more, 3);
    EXPECT_EQ(ids(document, "blocker"), one.expected) << document.dump(2);
    for (const auto& sql : one.undo_source) source().exec(sql);
    for (const auto& sql : one.undo_target) target().exec(sql);
  }
  EXPECT_EQ(ids(findings(source().conninfo(), target().conninfo(), {}, 0), "blocker"), Ids{});
  EXPECT_EQ(ids(findings(source().conninfo(), source().conninfo(), {}, 3), "blocker"),
            (Ids{"pair.same_database", "target.table_exists"}));
}

TEST_F(CheckTest, OwnTablesThatDoNotFitAreNamed) {
  source().exec("create table t (id int primary key, v int)");
  target().exec(
      "create table t (id int, v int); create function f() returns trigger language plpgsql as 'begin return new; end';"
      "create trigger noisy before insert on t for each row execute function f(); alter table t enable replica trigger "
      "noisy");
  EXPECT_THAT(ids(findings(source().conninfo(), target().conninfo(), {"--schema", "none"}, 0), "warning"),
              ::testing::IsSupersetOf({"target.always_trigger", "target.key_missing"}));
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

class NoSendersTest : public CheckTest {
 protected:
  ClusterOptions source_options() const override { return {.settings = {{"max_wal_senders", "0"}}}; }
};

TEST_F(NoSendersTest, SendersAreABlocker) {
  source().exec("create table t (id int primary key)");
  EXPECT_EQ(ids(findings(source().conninfo(), target().conninfo(), {}, 3), "blocker"), Ids{"source.senders"});
}

// ---- S41: the application goes on

struct Shape {
  std::string name;
  std::string conflict;  // "" where ON CONFLICT is not possible at all: a deferrable key
};

const Shape kShapes[] = {
    {"plain", "on conflict (id) do update set v = 7"},
    {"unkeyed", "on conflict do nothing"},
    {"full_identity", "on conflict do nothing"},
    {"identity_nothing", "on conflict (id) do update set v = 7"},
    {"by_index", "on conflict (id) do update set v = 7"},
    {"deferred_key", ""},
    {"deferred_unique", "on conflict (id) do update set v = 7"},
    {"generated_key", "on conflict (id) do update set v = 7"},
    {"fleeting", "on conflict (id) do update set v = 7"},
    {"parent", "on conflict (id) do update set v = 7"},
    {"child", "on conflict (id) do update set v = 7"},
    {"rooted", "on conflict (id) do update set v = 7"},
    {"loose", "on conflict do nothing"},
    {"loose_1", "on conflict (id) do update set v = 7"},
    {"uses_row_type", "on conflict (id) do update set v = 7"},
    {"always_triggered", "on conflict (id) do update set v = 7"},
    {"passing", "on conflict (id) do update set v = 7"},
};

// Ids from `base` on: nothing of an earlier round, or of another shape in the same tree of tables, is in the way.
void work(Session& application, int base) {
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(shape.name);
    base += 10;
    const auto at = [&](int n) { return std::to_string(base + n); };
    const auto insert = "insert into " + shape.name + " (id, v) values (" + at(0) + ", 0), (" + at(1) + ", 0)";
    std::vector<std::string> statements{insert};
    if (!shape.conflict.empty()) statements.push_back(insert + " " + shape.conflict);
    statements.push_back("update " + shape.name + " set v = v + 1 where id = " + at(0));
    statements.push_back("update " + shape.name + " set id = " + at(2) + " where id = " + at(0));
    statements.push_back("delete from " + shape.name + " where id = " + at(1));
    statements.push_back("merge into " + shape.name + " t using (values (" + at(2) + ", 5), (" + at(3) +
                         ", 6)) s (id, v) on t.id = s.id when matched then update set v = s.v when not matched then "
                         "insert (id, v) values (s.id, s.v)");
    statements.push_back("merge into " + shape.name + " t using (values (" + at(3) +
                         ")) s (id) on t.id = s.id when matched then delete");
    for (const auto& sql : statements) {
      try {
        application.exec(sql);
      } catch (const SqlError& error) {
        ADD_FAILURE() << sql << ": " << error.what();
      }
    }
  }
  application.exec("refresh materialized view summary");
}

TEST_F(CheckTest, S41TheApplicationsStatementsKeepWorking) {
  source().exec(read_test_data("check/everything.sql"));
  const auto document = findings(source().conninfo(), target().conninfo(), {}, 0);
  EXPECT_THAT(ids(document, "warning"), ::testing::IsSupersetOf({"table.no_identity", "table.unlogged"}));
  EXPECT_THAT(ids(document, "note"), ::testing::IsSupersetOf({"table.foreign", "table.matview", "table.guard"}));
  auto application = source().session();
  application.exec("create temp table passing (id int primary key, v int)");
  work(application, 1000);  // they work without us
  clone_until_caught_up();
  work(application, 2000);
  auto follower = start("follow");
  ASSERT_TRUE(follower.wait_for_stderr("streaming from"));
  work(application, 3000);
  stop_follower(follower);
  expect_equal_after_drain({.exclude = {"public.unkeyed", "public.identity_nothing", "public.deferred_key",
                                        "public.generated_key", "public.fleeting"}});
}

}  // namespace
}  // namespace pgbaton::testing
