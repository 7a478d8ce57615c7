// The application's UPDATE and DELETE on the source never fail because of us (S58, G9), whatever a table's identity is.
#include <map>
#include <nlohmann/json.hpp>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;

class IdentityTest : public PairTest {
 protected:
  // What an application does, as one statement after the other; none may fail.
  void application(const std::vector<std::string>& statements) {
    auto session = source().session();
    for (const auto& sql : statements) EXPECT_NO_THROW(session.exec(sql)) << sql;
  }
};

TEST_F(IdentityTest, S58_DeferrablePrimaryKey) {
  source().exec(
      "create table t (id int primary key deferrable initially deferred, v text);"
      "insert into t select i, 'v' from generate_series(1, 10) i");
  const auto check = run("check");
  EXPECT_EQ(check.code, 0) << check;
  EXPECT_THAT(check.out, HasSubstr("its primary key is deferrable")) << check;
  clone_until_caught_up();
  const std::vector<std::string> statements{"update t set v = 'w' where id = 1", "delete from t where id = 2",
                                            "insert into t values (11, 'new')", "update t set id = id + 100"};
  application(statements);
  const auto follow = run("follow", {"--until", "caught-up"});
  EXPECT_EQ(follow.code, 0) << follow;
  EXPECT_EQ(target().number("select count(*) from t where id = 11"), 1) << "inserts are carried";

  // With REPLICA IDENTITY FULL, chosen by the owner, everything is.
  const auto drop = run("drop");
  ASSERT_EQ(drop.code, 0) << drop;
  target().exec("drop table t");
  source().exec("alter table t replica identity full");
  clone_until_caught_up();
  application(statements);
  application({"update t set id = 400 - id where id between 100 and 300"});  // keys change places within a statement
  expect_equal_after_drain();
}

// No row of such a leaf is ever sent, so only a look at the catalogs can tell, also when nobody starts the follower
// anew.
TEST_F(IdentityTest, S58_LeafAttachedAndIdentityLostWhileFollowing) {
  source().exec(
      "create table root (id int, part int) partition by list (part); create table leaf_1 partition of root for values "
      "in (1);"
      "create table t (id int primary key, v text); insert into t values (1, 'v')");
  create_marker();
  clone_until_caught_up();
  auto follower = start("follow");
  ASSERT_TRUE(marker_arrives()) << follower.err();
  source().exec("create table leaf_2 partition of root for values in (2); alter table t drop constraint t_pkey");
  EXPECT_TRUE(follower.wait_for_stderr("leaf_2.*not part of this replica", Milliseconds(25'000))) << follower.err();
  EXPECT_TRUE(follower.wait_for_stderr("\"t\" has no usable identity", Milliseconds(5'000))) << follower.err();
  source().exec("alter table t replica identity full; update t set v = 'w'");
  EXPECT_TRUE(marker_arrives()) << follower.err();
  stop_follower(follower);
}

class Identity18Test : public IdentityTest {
 protected:
  static constexpr const char* kTables =
      "create table in_key (a int not null, b int not null generated always as (a * 2) stored, v text, primary key (a, "
      "b));"
      "create table in_index (a int not null, b int not null generated always as (a + 1) stored, v text);"
      "create unique index in_index_b on in_index (b); alter table in_index replica identity using index in_index_b;"
      "create table full_virtual (id int, b int generated always as (id * 3) virtual, v text);"
      "alter table full_virtual replica identity full;"
      "create table full_stored (id int, b int generated always as (id * 3) stored, v text);"
      "alter table full_stored replica identity full;"
      "create table beside (id int primary key, b int generated always as (id * 3) virtual, c int generated always as "
      "(id * 4) stored, v text)";
  ClusterOptions source_options() const override { return {.major = 18}; }
  ClusterOptions target_options() const override { return {.major = 18}; }
};

TEST_F(Identity18Test, S58_GeneratedColumnsInTheIdentity) {
  source().exec(kTables);
  target().exec(kTables);
  source().exec(
      "insert into in_key (a, v) select i, 'v' from generate_series(1, 10) i;"
      "insert into in_index (a, v) select i, 'v' from generate_series(1, 10) i;"
      "insert into full_virtual (id, v) select i, 'v' from generate_series(1, 10) i;"
      "insert into full_stored (id, v) select i, 'v' from generate_series(1, 10) i;"
      "insert into beside (id, v) select i, 'v' from generate_series(1, 10) i");
  const auto check = run("check", {"--schema", "none"});
  EXPECT_EQ(check.code, 0) << check;
  for (const auto* table : {"in_key", "in_index", "full_virtual", "full_stored"}) {
    EXPECT_THAT(check.out, HasSubstr(table)) << "a table with a choice to make is listed";
  }
  clone_until_caught_up({"--schema", "none"});
  application({"update in_key set v = 'w' where a = 1", "delete from in_key where a = 2",
               "insert into in_key (a, v) values (11, 'new')",
               "insert into in_key (a, v) values (11, 'new') on conflict (a, b) do update set v = 'again'",
               "update in_index set v = 'w' where a = 1", "delete from in_index where a = 2",
               "insert into in_index (a, v) values (11, 'new')", "update full_virtual set v = 'w' where id = 1",
               "delete from full_virtual where id = 2", "insert into full_virtual (id, v) values (11, 'new')",
               "update full_stored set v = 'w' where id = 1", "delete from full_stored where id = 2",
               "insert into full_stored (id, v) values (11, 'new')", "update beside set v = 'w' where id = 1",
               "update beside set id = 100 where id = 3", "delete from beside where id = 2",
               "insert into beside (id, v) values (11, 'new')"});
  const auto follow = run("follow", {"--until", "caught-up"});
  EXPECT_EQ(follow.code, 0) << follow;
  for (const auto* table :
       {"in_key where a = 11", "in_index where a = 11", "full_virtual where id = 11", "full_stored where id = 11"}) {
    EXPECT_EQ(target().number(std::string("select count(*) from ") + table), 1) << table;
  }
  expect_equal({.exclude = {"public.in_key", "public.in_index", "public.full_virtual", "public.full_stored"}});
}

class PartitionIdentityTest : public IdentityTest, public ::testing::WithParamInterface<int> {
 protected:
  ClusterOptions source_options() const override { return {.major = GetParam()}; }
  ClusterOptions target_options() const override { return {.major = std::max(15, GetParam())}; }
  Arguments schema() const { return {"--schema", GetParam() > 15 ? "none" : "full"}; }
  void create(const std::string& sql) {
    source().exec(sql);
    if (GetParam() > 15) target().exec(sql);
  }
  // 12 publishes leaves by name, so what check and plan say of a partition to come is another thing there.
  void expect_what_is_said_of_the_root() {
    Arguments check{"--json"}, plan{"--dry-run", "--json"};
    for (auto* arguments : {&check, &plan})
      for (const auto& word : schema()) arguments->push_back(word);
    const auto checked = run("check", check);
    EXPECT_EQ(checked.code, 0) << checked;
    EXPECT_THAT(checked.out, HasSubstr(GetParam() == 12 ? "because version 12 publishes no partitioned table: those "
                                                          "attached later are not streamed"
                                                        : "partitions attached later are streamed, too"));
    const auto planned = run("clone", plan);
    ASSERT_EQ(planned.code, 0) << planned;
    const auto document = nlohmann::json::parse(planned.out);
    std::map<std::string, std::string> published;
    for (const auto& table : document.at("tables"))
      published[table.at("name")] = table.at("publication").is_null() ? "" : table.at("publication");
    const std::map<std::string, std::string> leaf{{"leaf_1", "pgbaton"}, {"root", ""}},
        root{{"leaf_1", ""}, {"root", "pgbaton"}};
    EXPECT_EQ(published, GetParam() == 12 ? leaf : root);
  }
};

// The root has no primary key, so it cannot be published as one whose updates are carried; its leaves have one each.
TEST_P(PartitionIdentityTest, S58_RootWithoutPrimaryKey) {
  create(
      "create table root (id int not null, part int not null, v text) partition by list (part);"
      "create table leaf_1 partition of root for values in (1); alter table leaf_1 add primary key (id);"
      "create table leaf_2 partition of root for values in (2); alter table leaf_2 add primary key (id)");
  source().exec("insert into root select i, 1 + i % 2, 'v' from generate_series(1, 100) i");
  clone_until_caught_up(schema());
  application({"update root set v = 'w' where id = 1", "delete from root where id = 2",
               "update root set part = 3 - part where id = 3", "update leaf_1 set v = 'direct' where id = 4",
               "insert into root values (1000, 1, 'new')"});
  expect_equal_after_drain();

  // One with a key of its own and one without any, attached later.
  const std::string later =
      "create table leaf_3 (id int not null primary key, part int not null, v text);"
      "alter table root attach partition leaf_3 for values in (3);"
      "create table leaf_4 partition of root for values in (4)";
  source().exec(later);
  application({"insert into root values (2000, 3, 'later'), (2001, 4, 'later')",
               "update root set v = 'x' where part in (3, 4)", "delete from root where id = 2000",
               "update root set part = 4 where id = 5", "update leaf_1 set v = 'still'"});
  const auto follow = run("follow", {"--until", "caught-up"});
  EXPECT_EQ(follow.code, 0) << follow;
  EXPECT_THAT(follow.err, HasSubstr("leaf_3")) << "a leaf that is not carried is named";
  EXPECT_THAT(follow.err, HasSubstr("leaf_4"));
}

// The root has a primary key: every leaf has it, too, whenever it is attached. Its rows are published, and the replica
// says that it does not know the table; the application notices nothing.
TEST_P(PartitionIdentityTest, S58_RootWithPrimaryKeyGetsALeafLater) {
  create(
      "create table root (id int not null, part int not null, v text, primary key (id, part)) partition by list (part);"
      "create table leaf_1 partition of root for values in (1)");
  source().exec("insert into root select i, 1, 'v' from generate_series(1, 100) i");
  expect_what_is_said_of_the_root();
  clone_until_caught_up(schema());
  source().exec("create table leaf_2 partition of root for values in (2)");
  const auto added = run("resync", {"--add", "leaf_2"});
  EXPECT_EQ(added.code, 3) << added;
  EXPECT_THAT(added.err, HasSubstr(GetParam() == 12 ? "HINT: `pgbaton clone --restart` begins anew"
                                                    : "HINT: `pgbaton follow --drift add-columns` takes in"));
  application({"insert into root values (1000, 2, 'new')", "update root set v = 'w' where part = 2",
               "update root set part = 2 where id = 7", "delete from root where id = 8"});
  const auto follow = run("follow", {"--until", "caught-up"});
  EXPECT_THAT(follow.err, HasSubstr("leaf_2")) << "the leaf is named";
  // 12 publishes leaves by name, so the new one is not in the stream at all.
  if (GetParam() == 12) {
    EXPECT_EQ(follow.code, 0) << follow;
    EXPECT_THAT(follow.err, HasSubstr("`pgbaton clone --restart` begins anew"));
    return;
  }
  EXPECT_EQ(follow.code, 8) << follow;
  EXPECT_EQ(target().number("select count(*) from root where id = 8"), 1) << "nothing beyond the gap is applied";
}

INSTANTIATE_TEST_SUITE_P(majors, PartitionIdentityTest, ::testing::Values(12, 15, 18),
                         [](const auto& test) { return "pg" + std::to_string(test.param); });

}  // namespace
}  // namespace pgbaton::testing
