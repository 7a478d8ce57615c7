// S41: after `check` and beside a clone the application's statements keep working, on every shape of table.
#include "pg/check_fixture.hpp"

namespace pgbaton::testing {
namespace {

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
