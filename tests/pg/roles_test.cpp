// The recipes for roles (sql/roles_source.sql, sql/roles_target.sql) exactly as they are documented, and then every
// command with no superuser's connection at all.
#include <fstream>

#include "pg/check_fixture.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Majors {
  int source, target;
  bool may_set;  // whether the target's role may set session_replication_role
};

class RolesTest : public CheckTest, public ::testing::WithParamInterface<Majors> {
 protected:
  ClusterOptions source_options() const override { return with_log(GetParam().source); }
  ClusterOptions target_options() const override { return with_log(GetParam().target); }
  static ClusterOptions with_log(int major) { return {.major = major, .settings = {{"log_connections", "on"}}}; }

  // What the recipe's first lines say, with our connection.
  static void run_recipe(const Cluster& cluster, const std::string& name, const std::string& database) {
    const auto folder = make_run_directory("recipe");
    std::ofstream(folder + "/" + name) << read_test_data("../../sql/" + name);
    run_checked({.arguments = {"psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", cluster.conninfo(database), "-f",
                               folder + "/" + name}});
    remove_tree(folder);
  }
  void prepare() {
    source().exec("create role app");
    source().exec("create database shop owner app");
    source().exec(R"sql(
      set role app;
      create schema audit;
      create table customer (id bigint generated always as identity primary key, name text not null);
      create table orders (id bigint primary key, customer_id bigint references customer, total numeric, done date);
      create table audit.line (at timestamptz default now(), what text);
      create table part (day date, n int, primary key (day, n)) partition by range (day);
      create table part_1 partition of part for values from ('2026-01-01') to ('2026-02-01');
      create table part_2 partition of part for values from ('2026-02-01') to ('2026-03-01');
      create sequence number start 7;
      create function audit.note() returns trigger language plpgsql as
        $$ begin insert into audit.line (what) values ('order ' || new.id); return new; end $$;
      create trigger note after insert on orders for each row execute function audit.note();
      insert into customer (name) select 'customer ' || i from generate_series(1, 300) i;
      insert into orders select i, 1 + i % 300, i * 1.5, '2026-01-01' from generate_series(1, 2000) i;
      insert into part select '2026-01-01'::date + i, i from generate_series(0, 50) i)sql",
                  "shop");
    run_recipe(source(), "roles_source.sql", "shop");
    run_recipe(target(), "roles_target.sql", "postgres");
    target().exec("create role app; grant app to pgbaton");
    if (GetParam().target >= 15) {
      // What the recipe's last lines are for is named before they are run.
      EXPECT_EQ(ids(findings(from(), to(), {"--publication", "pgbaton_shop"}, 3), "blocker"),
                Ids{"target.owner_schema"});
      target().exec("grant create on schema public to app", "shop");
    }
    target().exec("create schema audit authorization app", "shop");  // made beforehand, it is taken as it is
    if (GetParam().target >= 15 && !GetParam().may_set)
      target().exec("revoke set on parameter session_replication_role from pgbaton");
  }

  std::string from() { return source().conninfo("shop", "pgbaton"); }
  std::string to() { return target().conninfo("shop", "pgbaton"); }
  Arguments with(const std::string& command, const Arguments& more = {}) {
    Arguments all{command, "--source", from(), "--target", to()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void succeed(const std::string& command, const Arguments& more = {}) {
    const auto result = Tool::run(with(command, more), Milliseconds(90'000));
    EXPECT_EQ(result.code, 0) << command << ": " << result;
  }
  void change() {
    source().exec(
        "update customer set name = name || '!' where id % 7 = 0; delete from orders where id % 11 = 0; "
        "insert into orders values ((select max(id) + 1 from orders), 5, 1, null); insert into part values "
        "('2026-02-20', (select max(n) + 1 from part))",
        "shop");
  }
  void expect_same() {
    EXPECT_THAT(differences(source().conninfo("shop"), target().conninfo("shop"), {.sequences = true}), IsEmpty());
  }
  static void expect_no_superuser(const Cluster& cluster) {
    std::istringstream log(cluster.log());
    int ours = 0;
    for (std::string line; std::getline(log, line);) {
      if (line.find("application_name=pgbaton/") == std::string::npos) continue;
      ++ours;
      EXPECT_THAT(line, HasSubstr("user=pgbaton "));
    }
    EXPECT_GT(ours, 20);
  }
};

TEST_P(RolesTest, EveryCommandWorksWithTheRecipesAlone) {
  prepare();
  const Arguments given{"--publication", "pgbaton_shop"};
  auto document = findings(from(), to(), given, 0);
  EXPECT_THAT(ids(document, "blocker"), IsEmpty()) << document;
  EXPECT_EQ(ids(document, "warning").contains("target.replica_role"), !GetParam().may_set) << document;
  succeed("clone", {"--publication", "pgbaton_shop", "--dry-run"});
  succeed("clone", given);
  if (HasFailure()) return;
  change();
  Tool follower(with("follow"));
  succeed("wait", {"--for", "ready", "--timeout", "60s"});
  change();
  succeed("status", {"--json"});
  succeed("verify");
  // Without the right the foreign keys and triggers come at `finish`, and are in nobody's way before.
  succeed("resync", {"orders"});
  change();
  succeed("wait", {"--for", "caught-up", "--timeout", "60s"});
  target().exec("update customer set name = 'damaged' where id = 3", "shop");
  succeed("verify", {"--repair"});
  follower.kill(SIGTERM);
  EXPECT_EQ(follower.wait().code, 0);
  change();
  succeed("follow", {"--until", "caught-up"});
  succeed("finish");
  succeed("sequences");
  expect_same();
  EXPECT_EQ(target().scalar("select count(*) from pg_constraint where contype = 'f'", "shop"), "1");
  EXPECT_EQ(target().scalar("select count(*) from pg_trigger where tgname = 'note'", "shop"), "1");
  EXPECT_EQ(source().scalar("select string_agg(pubname, ' ' order by 1) from pg_publication", "shop"),
            "pgbaton_shop pgbaton_shop__ins")
      << "what an administrator made stays";
  EXPECT_THAT(leftovers(source().conninfo("shop")), Not(::testing::Contains(HasSubstr("slot"))));
  EXPECT_EQ(target().scalar("select count(*) from pg_namespace where nspname = 'pgbaton'", "shop"), "0");

  target().exec("drop database shop");
  target().exec("create database shop owner pgbaton");
  target().exec("grant create on schema public to app", "shop");
  succeed("clone", {"--publication", "pgbaton_shop", "--until", "caught-up"});
  succeed("drop");
  EXPECT_EQ(source().scalar("select count(*) from pg_replication_slots"), "0");
  EXPECT_EQ(source().scalar("select count(*) from pg_publication", "shop"), "2");
  expect_no_superuser(source());
  expect_no_superuser(target());
}

INSTANTIATE_TEST_SUITE_P(Majors, RolesTest, ::testing::Values(Majors{15, 15, true}, Majors{12, 15, false}),
                         [](const auto& p) {
                           return std::to_string(p.param.source) + "To" + std::to_string(p.param.target) +
                                  (p.param.may_set ? "" : "WithoutReplicaRole");
                         });

class GivenPublicationTest : public CheckTest {};

// What an administrator's publication may lack is told by `check`, and nothing is made by `clone`.
TEST_F(GivenPublicationTest, IsVerified) {
  source().exec(
      "create table t (id int primary key); create table u (id int primary key); create table keyless (line text)");
  struct Wrong {
    std::string make, says, hint;
    Arguments more;
  };
  const std::string inserts = "create publication p__ins for table keyless with (publish = 'insert, truncate');";
  const std::vector<Wrong> all{
      {"select 1", "does not exist", "roles_source.sql", {}},
      {inserts + "create publication p for table t", "lacks", "ALTER PUBLICATION|Add these tables", {}},
      {inserts + "create publication p for table t, u with (publish = 'insert')", "does not publish all", "SET", {}},
      {"create publication p__ins for table keyless; create publication p for table t, u",
       "publishes other things",
       "SET",
       {}},
      {inserts + "create publication p for table t, u", "also publishes", "exclude-data", {"--exclude-table", "u"}},
      {"create publication p for table t, u", "keyless", "p__ins", {}},
  };
  for (const auto& wrong : all) {
    SCOPED_TRACE(wrong.make);
    source().exec(wrong.make);
    Arguments more{"--publication", "p"};
    more.insert(more.end(), wrong.more.begin(), wrong.more.end());
    const auto document = findings(source().conninfo(), target().conninfo(), more, 3);
    EXPECT_EQ(ids(document, "blocker"), Ids{"source.publication"}) << document;
    const auto result = run("clone", more);
    EXPECT_EQ(result.code, 3) << result;
    EXPECT_THAT(result.err, AllOf(HasSubstr(wrong.says), HasSubstr("HINT: ")));
    EXPECT_THAT(result.err, ::testing::ContainsRegex(wrong.hint));
    EXPECT_EQ(source().scalar("select count(*) from pg_replication_slots"), "0");
    source().exec("drop publication if exists p; drop publication if exists p__ins");
  }
  // With its UPDATEs: the application's fail already, which is for its administrator to know.
  source().exec("create publication p for all tables");
  const auto document = findings(source().conninfo(), target().conninfo(), {"--publication", "p"}, 0);
  EXPECT_TRUE(ids(document, "warning").contains("source.publication")) << document;
  clone_until_caught_up({"--publication", "p"});
  source().exec("insert into keyless values ('later'); insert into t values (1)");
  const auto resync = run("resync", {"keyless"});
  EXPECT_EQ(resync.code, 0) << resync;
  expect_equal_after_drain();
  // Nothing of the two databases is ours but the slot.
  EXPECT_EQ(run("drop").code, 0);
  EXPECT_EQ(source().scalar("select count(*) from pg_publication"), "1");
}

}  // namespace
}  // namespace pgbaton::testing
