// The stories of NamedShapesTest about tables that differ between the two sides, or that are not all carried.
#include "named_shapes.hpp"

namespace pgbaton::testing {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Partitioned on one side only: what does not work is named, and works when the remedy has been followed.
void NamedShapesTest::partitioned_on_one_side() {
  const std::string leaves =
      "create table root_1 partition of root for values in (1); create table root_2 partition of root default "
      "partition "
      "by hash (id); create table root_2a partition of root_2 for values with (modulus 1, remainder 0);";
  const std::string root = "create table root (id int, k int, v text, primary key (id, k))";
  const std::string rows = "insert into root select i, i % 3, 'v' from generate_series(1, 300) i";
  const std::string changes =
      "update root set k = 1 where id < 50; update root set id = id + 1000, v = 'w' where id > 280; delete from root "
      "where id = 100; insert into root values (5000, 1, 'n'), (5001, 2, 'n')";
  const auto everything = [&](const std::string& database) {
    source().exec(changes, database);
    succeed(database, "follow", {"--until", "caught-up"});
    succeed(database, "finish");
  };

  create("to_plain", root + " partition by list (k);" + leaves + rows, root);
  EXPECT_THAT(findings("to_plain", {"--schema", "none"}),
              Contains("blocker target.partition_missing \"public\".\"root\""));
  const auto refused = in("to_plain", "clone", {"--schema", "none"});
  EXPECT_EQ(refused.code, 3) << refused;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("plain table"), HasSubstr("\"public\".\"root_1\", \"public\".\"root_2a\"")));
  EXPECT_THAT(target_leftovers(target().conninfo("to_plain")), IsEmpty());
  target().exec("create table root_1 (like root including all); create table root_2a (like root including all)",
                "to_plain");
  succeed("to_plain", "clone", {"--schema", "none"});
  everything("to_plain");
  for (const auto* leaf : {"root_1", "root_2a"}) {
    const auto query = std::string("select id, k, v from ") + leaf + " order by 1, 2";
    EXPECT_EQ(source().query(query, "to_plain"), target().query(query, "to_plain")) << leaf;
  }
  EXPECT_EQ(target().number("select count(*) from root", "to_plain"), 0) << "rows are where the source has them";

  create("to_parted", root + ";" + rows, root + " partition by list (k)");
  EXPECT_THAT(findings("to_parted", {"--schema", "none"}), Contains("blocker target.no_partition \"public\".\"root\""));
  EXPECT_EQ(in("to_parted", "clone", {"--schema", "none"}).code, 3);
  target().exec("create table root_p partition of root for values in (0, 1) partition by list (id)", "to_parted");
  EXPECT_THAT(findings("to_parted", {"--schema", "none"}), Contains("blocker target.no_partition \"public\".\"root\""));
  target().exec("create table root_pd partition of root_p default", "to_parted");
  const auto no_place = in("to_parted", "clone", {"--schema", "none"});
  EXPECT_EQ(no_place.code, 8) << no_place;
  EXPECT_THAT(no_place.err, HasSubstr("no partition of relation \"root\" found for row"));
  target().exec("create table root_d partition of root default; insert into root values (1, 7, 'own')", "to_parted");
  EXPECT_THAT(findings("to_parted", {"--schema", "none"}),
              Contains("blocker target.table_not_empty \"public\".\"root\""));
  EXPECT_EQ(in("to_parted", "clone", {"--schema", "none"}).code, 3);
  EXPECT_EQ(target().number("select count(*) from root", "to_parted"), 1) << "rows that are not ours stay";
  target().exec("truncate root", "to_parted");
  succeed("to_parted", "clone", {"--schema", "none"});
  succeed("to_parted", "clone", {"--schema", "none", "--restart"});
  everything("to_parted");
  const auto query = "select id, k, v from root order by 1, 2";
  EXPECT_EQ(source().query(query, "to_parted"), target().query(query, "to_parted"));
}

// --schema none: other column order, more columns, other kinds of table.
void NamedShapesTest::tables_that_the_target_had_before() {
  create(
      "own",
      "create table t (id int primary key, a text, b int, c varchar(5));"
      "create table plain (id int, k int, v text, primary key (id, k));"
      "create table parted (id int, k int, v text, primary key (id, k)) partition by list (k);"
      "create table parted_1 partition of parted for values in (1); create table parted_2 partition of parted default;"
      "create table moved (id int primary key, v text); create table no_key (a int, b text);"
      "alter table no_key replica identity full;"
      "insert into t select i, 'a' || i, i, 'c' from generate_series(1, 200) i;"
      "insert into plain select i, i % 3, 'v' from generate_series(1, 200) i; insert into parted select * from plain;"
      "insert into moved select i, 'v' from generate_series(1, 50) i; insert into no_key values (1, 'x'), (1, 'x')",
      "create table t (junk int, made timestamptz default now(), c varchar(9), b int, more text default 'own' not null,"
      "id int, g int generated always as (b * 2) stored, a text, number serial, primary key (id));"
      "alter table t drop column junk;"
      "create table plain (v text, k int, id int, primary key (id, k)) partition by hash (id);"
      "create table plain_0 partition of plain for values with (modulus 2, remainder 0);"
      "create table plain_1 partition of plain for values with (modulus 2, remainder 1);"
      "create table parted_1 (k int, v text, id int, primary key (id, k)); create table parted_2 (like parted_1 "
      "including all);"
      "create table moved (v text, id int primary key, copied bool default true);"
      "create table no_key (b text, extra int, a int)");
  EXPECT_THAT(findings("own", {"--schema", "none"}), ::testing::Not(Contains(HasSubstr("blocker"))));
  succeed("own", "clone", {"--schema", "none", "--until", "caught-up"});
  source().exec(
      "update t set a = 'live', c = 'd' where id < 10; update t set id = id + 1000 where id > 190; delete from t where "
      "id = "
      "20;"
      "insert into t select i, 'n', null, null from generate_series(2000, 2150) i; update plain set k = k + 10 where "
      "id < 9;"
      "update plain set id = id + 1000 where id between 20 and 29; delete from plain where id = 30;"
      "update parted set k = 1 where id < 20; update parted set v = 'w' where k = 1; delete from moved where id = 3;"
      "delete from no_key where ctid = (select min(ctid) from no_key); insert into no_key values (2, null);"
      "truncate plain; insert into plain values (1, 1, 'after')",
      "own");
  succeed("own", "finish");
  Session left(source().conninfo("own")), right(target().conninfo("own"));
  for (const auto* query :
       {"select id, a, b, c from t order by 1", "select id, k, v from plain order by 1, 2",
        "select id, k, v from parted_1 order by 1, 2", "select id, k, v from parted_2 order by 1, 2",
        "select id, v from moved order by 1", "select a, b from no_key order by 1"})
    EXPECT_EQ(left.query(query), right.query(query)) << query;
  EXPECT_EQ(right.scalar("select count(*) from t where more <> 'own' or made is null or number is null"), "0");
  EXPECT_EQ(right.scalar("select count(*) from t where g is distinct from b * 2"), "0");
  EXPECT_EQ(right.scalar("select count(*) from moved where not copied"), "0");

  // What cannot be filled, or would change values, is a finding.
  create(
      "unfit",
      "create table needs (id int primary key); create table types (id int primary key, a int, b numeric(10, 4), c "
      "varchar(9), d text); create table g (id int primary key, a int)",
      "create table needs (id int primary key, must int not null); create table types (id int primary key, a bigint, b "
      "numeric(10, 2), c varchar(5), d text); create table g (id int primary key, a int generated always as (id) "
      "stored)");
  const auto found = findings("unfit", {"--schema", "none"});
  EXPECT_THAT(found, Contains("blocker target.column_unfilled \"public\".\"needs\""));
  EXPECT_THAT(found, Contains("blocker target.column_type \"public\".\"types\""));
  EXPECT_THAT(found, Contains("blocker target.column_type \"public\".\"g\""));
  EXPECT_EQ(in("unfit", "clone", {"--schema", "none"}).code, 3);
}

// S38: stops before the first row that does not fit, and the statement of the hint lets it go on; or adds the column.
void NamedShapesTest::shapes_that_drift() {
  create("s38",
         "create table t (id int primary key, v varchar(10), n int not null); insert into t select i, 'v', i from "
         "generate_series(1, 100) i; create table p (id int, d int, primary key (id, d)) partition by list (d); create "
         "table p1 partition of p for values in (1); insert into p values (1, 1)");
  succeed("s38", "clone");
  const std::string drifts[] = {
      "begin; insert into t values (1001, 'before', 1); alter table t add column w int default 7; update t set w = 8 "
      "where id < 5; insert into t values (1002, 'after', 1, 9); commit",
      "alter table t rename column n to m; insert into t values (1003, 'x', 2)",
      "alter table t alter column v type varchar(40); insert into t values (1004, repeat('long', 9), 1)",
      "alter table t drop column m; insert into t (id, v) values (1005, 'x')"};
  for (const auto& drift : drifts) {
    const auto before = target().scalar("select count(*) from t", "s38");
    source().exec(drift, "s38");
    const auto stopped = in("s38", "follow", {"--until", "caught-up"});
    EXPECT_EQ(stopped.code, 8) << stopped;
    EXPECT_EQ(target().scalar("select count(*) from t", "s38"), before) << "nothing of that transaction was applied";
    const std::string start = "On the target run: ", end = "then run the same command again";
    const auto from = stopped.err.find(start), to = stopped.err.find(end);
    ASSERT_TRUE(from < to && to != std::string::npos) << stopped;
    target().exec(stopped.err.substr(from + start.size(), to - from - start.size()), "s38");
    succeed("s38", "follow", {"--until", "caught-up"});
  }
  target().exec("alter table t drop column m", "s38");
  expect_equal_in("s38");

  source().exec(
      "alter table t add column moment timestamptz default now(), add column kind text default 'a''b' not null; insert "
      "into t (id, v) values (1006, 'y'); update t set kind = 'c' where id = 7; create table p2 partition of p for "
      "values in (2); insert into p values (2, 2), (3, 1)",
      "s38");
  succeed("s38", "follow", {"--until", "caught-up", "--drift", "add-columns"});
  expect_equal_in("s38");
  succeed("s38", "finish");
}

// S45: excluded tables, a foreign key that leads to one, a name that matches nothing. S46: tables in several parts,
// with rows beyond the last range while they are copied.
void NamedShapesTest::parts_of_a_database() {
  create("parts",
         "create schema gone; create table gone.log (id int primary key); insert into gone.log values (1);"
         "create table kept (id int primary key, a int constraint to_log references gone.log); insert into kept values "
         "(1, 1); create table pairs (a int, b int, v text, primary key (a, b)); insert into pairs select i / 100, i % "
         "100, repeat(md5(i::text), 4) from generate_series(1, 8000) i; create table uuids (id uuid primary key, v "
         "text); insert into uuids select md5(i::text)::uuid, repeat(md5(i::text), 4) from generate_series(1, 8000) i;"
         "create table texts (key text primary key, body text); alter table texts alter body set storage external;"
         "insert into texts select 'key ' || i, repeat(md5(i::text), 180) from generate_series(1, 500) i; analyze");
  EXPECT_EQ(in("parts", "clone", {"--exclude-table", "public.nothing"}).code, 2);
  Tool clone(line("parts", "clone",
                  {"--exclude-schema", "gone", "--split-above", "256kB", "--jobs", "3", "--max-rate", "3MB"}));
  ASSERT_TRUE(target().wait_until("select coalesce((select count(*) from pg_stat_progress_copy), 0) > 0", "t",
                                  Milliseconds(60'000), "parts"))
      << clone.err();
  source().exec(
      "insert into pairs select 5000, i, repeat('late', 40) from generate_series(1, 3000) i; update pairs set v = "
      "'changed' where b = 7; insert into uuids select gen_random_uuid(), 'late' from generate_series(1, 500); delete "
      "from texts where key like '%7'; insert into texts values ('zzz', repeat('z', 9000)); insert into gone.log "
      "values "
      "(2); insert into kept values (2, 2)",
      "parts");
  const auto cloned = clone.wait();
  ASSERT_EQ(cloned.code, 0) << cloned;
  EXPECT_THAT(cloned.err, HasSubstr("to_log"));
  source().exec(
      "update pairs set a = a + 10000 where b = 8; insert into gone.log values (3); delete from kept where id = 1",
      "parts");
  succeed("parts", "follow", {"--until", "caught-up"});
  expect_equal_in("parts", {.exclude = {"gone.log"}});
  EXPECT_EQ(target().scalar("select to_regclass('gone.log') is null", "parts"), "t");
  succeed("parts", "finish");
}

}  // namespace pgbaton::testing
