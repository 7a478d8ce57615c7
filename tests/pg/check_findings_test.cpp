// Each finding of `check` brought about alone: every blocker, and what the golden document cannot show.
#include "pg/check_fixture.hpp"

namespace pgbaton::testing {
namespace {

struct Case {
  Ids expected;
  std::vector<std::string> source, target;  // statements that bring it about
  std::vector<std::string> undo_source, undo_target;
  Arguments more{};
  std::string source_user = "postgres", target_user = "postgres", target_database = "postgres",
              source_database = "postgres";
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
    {{"target.table_right"},
     {},
     {"create table t (id int primary key, v int); grant create on database postgres to stranger"},
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
    {{"target.wrapper_right"},
     {"create extension postgres_fdw; create server far foreign data wrapper postgres_fdw"},
     {"create extension postgres_fdw; grant create on database postgres to stranger; grant create on schema public to "
      "stranger"},
     {"drop extension postgres_fdw cascade"},
     {"drop extension postgres_fdw; revoke create on database postgres from stranger; revoke create on schema public "
      "from stranger"},
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

// Warnings and notes; `expected` are among what is found.
const Case kOthers[] = {
    {{"source.connections", "target.connections"}, {}, {}, {}, {}, {"--jobs", "200"}},
    {{"source.connections"},
     {"alter role stranger connection limit 8"},
     {},
     {"alter role stranger connection limit -1"},
     {},
     {},
     "stranger"},
    {{"source.connections"},
     {"alter database postgres connection limit 8"},
     {},
     {"alter database postgres connection limit -1"},
     {},
     {},
     "stranger"},
    {{"target.extension_right"},
     {"create extension pg_buffercache"},
     {},
     {"drop extension pg_buffercache"},
     {},
     {},
     "postgres",
     "stranger"},
    {{"source.extension_data"},
     {"create table job (id int); insert into job values (1); alter extension plpgsql add table job"},
     {},
     {"alter extension plpgsql drop table job; drop table job"},
     {}},
};

class FindingsTest : public CheckTest {
 protected:
  void SetUp() override {
    CheckTest::SetUp();
    for (auto* cluster : {&source(), &target()})
      cluster->exec("create role stranger login replication; create role plain login");
    source().exec("create table t (id int primary key, v int); insert into t values (1, 1)");
  }
  Json found(const Case& one, int expected_code) {
    SCOPED_TRACE(*one.expected.begin());
    for (const auto& sql : one.source) source().exec(sql);
    for (const auto& sql : one.target) target().exec(sql);
    auto document = findings(source().conninfo(one.source_database, one.source_user),
                             target().conninfo(one.target_database, one.target_user), one.more, expected_code);
    for (const auto& sql : one.undo_source) source().exec(sql);
    for (const auto& sql : one.undo_target) target().exec(sql);
    return document;
  }
  Ids of_an_untouched_pair(const std::string& severity) {
    return ids(findings(source().conninfo(), target().conninfo(), {}, 0), severity);
  }
};

TEST_F(FindingsTest, EachBlockerAlone) {
  EXPECT_EQ(of_an_untouched_pair("blocker"), Ids{});
  for (const auto& one : kCases) {
    const auto document = found(one, 3);
    EXPECT_EQ(ids(document, "blocker"), one.expected) << document.dump(2);
  }
  EXPECT_EQ(of_an_untouched_pair("blocker"), Ids{});
  EXPECT_EQ(ids(findings(source().conninfo(), source().conninfo(), {}, 3), "blocker"),
            (Ids{"pair.same_database", "target.table_exists"}));
}

TEST_F(FindingsTest, EachWarningAndNote) {
  source().exec("alter table t owner to stranger; grant create on database postgres to stranger");
  target().exec("grant create on database postgres to stranger; grant create on schema public to stranger");
  auto known = of_an_untouched_pair("warning");
  known.merge(of_an_untouched_pair("note"));
  for (const auto& one : kOthers) {
    auto document = found(one, kAnyCode);
    auto all = ids(document, "warning");
    all.merge(ids(document, "note"));
    EXPECT_THAT(all, ::testing::IsSupersetOf(one.expected)) << document.dump(2);
    for (const auto& id : one.expected) EXPECT_FALSE(known.contains(id)) << id << " is there without a cause";
  }
}

// The versions are the operating system's, which both servers share: functions of the same name stand for another one.
TEST_F(FindingsTest, VersionsOfCollations) {
  for (auto* cluster : {&source(), &target()}) {
    const std::string version = cluster == &source() ? "2.1" : "2.2";
    cluster->exec("create database dated");
    auto session = cluster->session("dated");
    session.exec("set allow_system_table_mods = on");
    session.exec(
        "create or replace function pg_catalog.pg_database_collation_actual_version(oid) returns text language "
        "sql as $$ select '" +
        version + "' $$");
    session.exec("update pg_database set datcollversion = '2.0' where datname = 'dated'");
  }
  const auto document = findings(source().conninfo("dated"), target().conninfo("dated"), {}, 0);
  EXPECT_THAT(ids(document, "warning"),
              ::testing::IsSupersetOf({"source.collation_version", "target.collation_version"}));
  EXPECT_THAT(ids(document, "note"), ::testing::Contains("pair.collation_version")) << document.dump(2);
}

class FewLocksTest : public CheckTest {
 protected:
  ClusterOptions source_options() const override {
    return {.settings = {{"max_locks_per_transaction", "10"},
                         {"max_connections", "14"},
                         {"max_prepared_transactions", "0"},
                         {"max_wal_senders", "4"}}};
  }
};

TEST_F(FewLocksTest, MoreTablesThanTheLockTableHolds) {
  source().exec(
      "do $$ begin for i in 1..150 loop execute 'create table t' || i || ' (id int primary key)'; commit; end loop; "
      "end "
      "$$");
  EXPECT_THAT(ids(findings(source().conninfo(), target().conninfo(), {}, 0), "warning"),
              ::testing::Contains("source.locks"));
}

TEST_F(FindingsTest, OwnTablesThatDoNotFitAreNamed) {
  target().exec(
      "create table t (id int, v int); create function f() returns trigger language plpgsql as 'begin return new; end';"
      "create trigger noisy before insert on t for each row execute function f(); alter table t enable replica trigger "
      "noisy");
  auto found = findings(source().conninfo(), target().conninfo(), {"--schema", "none"}, 3);
  EXPECT_THAT(ids(found, "warning"), ::testing::Contains("target.always_trigger"));
  EXPECT_EQ(ids(found, "blocker"), Ids{"target.key_missing"});
  const auto clone = run("clone", {"--schema", "none"});
  EXPECT_EQ(clone.code, 3) << clone;
  EXPECT_THAT(clone.err, ::testing::HasSubstr("no unique key on \"id\""));
  EXPECT_THAT(leftovers(source().conninfo()), ::testing::IsEmpty());
  // The statement that is given.
  for (const auto& finding : found["findings"])
    if (finding["id"] == "target.key_missing") {
      const auto remedy = finding["remedy"].get<std::string>();
      target().exec(remedy.substr(0, remedy.find(';')));
    }
  EXPECT_THAT(ids(findings(source().conninfo(), target().conninfo(), {"--schema", "none"}, 0), "blocker"),
              ::testing::IsEmpty());
}

class NoSendersTest : public CheckTest {
 protected:
  ClusterOptions source_options() const override { return {.settings = {{"max_wal_senders", "0"}}}; }
};

TEST_F(NoSendersTest, SendersAreABlocker) {
  source().exec("create table t (id int primary key)");
  EXPECT_EQ(ids(findings(source().conninfo(), target().conninfo(), {}, 3), "blocker"), Ids{"source.senders"});
}

}  // namespace
}  // namespace pgbaton::testing
