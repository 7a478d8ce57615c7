// What is hard to repair: unique values that changed places among thousands of rows, keys of extensions' types, casts
// that lie, rows that hash alike, tables that cannot be repaired beside others that can, and foreign keys of the target
// that would change more than the repair.
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class VerifyRepairTest : public PairTest {
 protected:
  struct Found {
    ToolResult result;
    Json report;
  };
  Found verify(const Arguments& more = {}) {
    Arguments all{"verify", "--source", source().conninfo(), "--target", target().conninfo("postgres", role_),
                  "--json"};
    all.insert(all.end(), more.begin(), more.end());
    Found found;
    found.result = Tool::run(all, Milliseconds(120'000));
    found.report = Json::parse(found.result.out, nullptr, false);
    if (!found.report.is_object()) found.report = Json::object();
    return found;
  }
  void tamper(const std::string& sql) { target().exec("set session_replication_role = replica; " + sql); }
  std::vector<std::string> not_repaired(const Found& found) {
    std::vector<std::string> names;
    for (const auto& failure : found.report.value("not_repaired", Json::array()))
      names.push_back(failure.at("table").get<std::string>());
    return names;
  }
  // The same on both sides, by a query that the lying casts have no say in.
  void expect_same(const std::string& query) { EXPECT_EQ(target().scalar(query), source().scalar(query)) << query; }

  std::string role_ = "postgres";
};

constexpr int kFlags = 70;

// Flags to be flipped so that the XOR of the columns' hashes stays as it is: 64 bits, so among 65 there is a choice.
std::vector<int> flips_without_trace(Cluster& server) {
  std::array<std::pair<std::uint64_t, std::vector<bool>>, 64> pivots{};
  for (int i = 0; i < kFlags; ++i) {
    auto bits = static_cast<std::uint64_t>(server.number("select hashint8extended(0, " + std::to_string(i) +
                                                         ") # hashint8extended(1, " + std::to_string(i) + ")"));
    std::vector<bool> made_of(kFlags);
    made_of[static_cast<std::size_t>(i)] = true;
    for (int bit = 63; bit >= 0 && bits != 0; --bit) {
      if ((bits >> bit & 1) == 0) continue;
      auto& [pivot, pivot_of] = pivots[static_cast<std::size_t>(bit)];
      if (pivot == 0) {
        pivot = bits;
        pivot_of = made_of;
        break;
      }
      bits ^= pivot;
      for (std::size_t k = 0; k < made_of.size(); ++k) made_of[k] = made_of[k] != pivot_of[k];
    }
    if (bits != 0) continue;
    std::vector<int> flips;
    for (int k = 0; k < kFlags; ++k)
      if (made_of[static_cast<std::size_t>(k)]) flips.push_back(k);
    return flips;
  }
  return {};
}

std::string list(const std::string& separator, const auto& item) {
  std::string text;
  for (int i = 0; i < kFlags; ++i) text += (i == 0 ? "" : separator) + item(i);
  return text;
}

constexpr const char* kTables = R"(
create extension citext; create extension ltree; create extension hstore;
create table aa_stuck (id int primary key, v int); insert into aa_stuck values (1, 1), (2, 2);
create table rot (id int primary key, u int unique); insert into rot select g, g from generate_series(1, 3000) g;
create table pairs (a int, b text, u int unique, primary key (a, b));
insert into pairs select g, 'b' || g, g from generate_series(1, 700) g;
create table hk (h hstore primary key, v int); insert into hk values ('a=>1', 1), ('a=>2', 2);
create table lk (l ltree primary key, v int); insert into lk values ('a', 1), ('a.b', 2);
create table ck (c citext primary key, v int); insert into ck select 'Key' || g, g from generate_series(1, 9) g;
create domain word as citext;
create table dk (c word, n int[], v int, primary key (c, n)); insert into dk values ('Word', '{1,2}', 1);
create function ci_lt(text, text) returns bool language sql immutable as 'select lower($1) < lower($2)';
create function ci_le(text, text) returns bool language sql immutable as 'select lower($1) <= lower($2)';
create function ci_eq(text, text) returns bool language sql immutable as 'select lower($1) = lower($2)';
create function ci_ge(text, text) returns bool language sql immutable as 'select lower($1) >= lower($2)';
create function ci_gt(text, text) returns bool language sql immutable as 'select lower($1) > lower($2)';
create function ci_cmp(text, text) returns int language sql immutable as
  'select case when lower($1) < lower($2) then -1 when lower($1) = lower($2) then 0 else 1 end';
create operator <<<(function = ci_lt, leftarg = text, rightarg = text);
create operator <<=(function = ci_le, leftarg = text, rightarg = text);
create operator ===(function = ci_eq, leftarg = text, rightarg = text);
create operator >>=(function = ci_ge, leftarg = text, rightarg = text);
create operator >>>(function = ci_gt, leftarg = text, rightarg = text);
create operator class folded for type text using btree as operator 1 <<<, operator 2 <<=, operator 3 ===,
  operator 4 >>=, operator 5 >>>, function 1 ci_cmp(text, text);
create table ok (k text not null, v int); create unique index ok_k on ok (k folded);
alter table ok replica identity using index ok_k; insert into ok values ('one', 1), ('two', 2);
create type mood as enum ('sad', 'good', 'great');
create function lie(mood) returns text language sql immutable as $$select 'x'::text$$;
create function lie(point) returns text language sql immutable as $$select 'x'::text$$;
create cast (mood as text) with function lie(mood);
create cast (point as text) with function lie(point);
create function lie(text) returns mood language sql immutable as $$select 'sad'::public.mood$$;
create cast (text as mood) with function lie(text);
create domain feeling as mood;
create table m (id int primary key, m mood, f feeling); insert into m select g, 'good', 'sad' from generate_series(1, 9) g;
create table pts (p point, n int); alter table pts replica identity full;
insert into pts values ('(1,1)', 1), ('(2,2)', 1), ('(3,3)', 1);
create table zz (id int primary key, v int); insert into zz values (1, 1);
create table much (id int primary key, u int unique); insert into much select g, g from generate_series(1, 10100) g;
)";

TEST_F(VerifyRepairTest, EveryTableThatCanBeRepairedIs) {
  source().exec(kTables);
  source().exec("create table flags (" + list(", ", [](int i) { return "f" + std::to_string(i) + " bool"; }) +
                "); alter table flags replica identity full; insert into flags select " +
                list(", ", [](int) { return std::string("false"); }));
  clone_until_caught_up({"--keyless", "full"});
  // The stream finds the right one of rows that the cast calls equal.
  source().exec(
      "update pts set n = 2 where p ~= '(2,2)'; update m set m = 'great', f = 'good' where id = 9;"
      "insert into m values (10, 'good', 'good'); update m set f = 'great' where id between 6 and 8");
  EXPECT_EQ(verify().result.code, 0);
  const std::string points = "select string_agg(format('%s %s', p, n), ';' order by p <-> '(0,0)', n) from pts";
  const std::string moods = "select string_agg(format('%s %s %s', id, m, f), ';' order by id) from m";
  expect_same(points);
  expect_same(moods);

  // The hash of this row is that of the one that is there.
  const auto flips = flips_without_trace(target());
  ASSERT_FALSE(flips.empty());
  tamper("insert into flags select " +
         list(", ", [&](int i) { return std::string(std::ranges::find(flips, i) == flips.end() ? "false" : "true"); }));
  tamper(R"(
update rot set u = -u; update rot set u = case when id = 3000 then 1 else id + 1 end;
update pairs set u = -u; update pairs set u = case when a = 700 then 1 else a + 1 end;
insert into rot values (9001, 9001); delete from pairs where a = 650;
update hk set v = -1 where h = 'a=>1'; insert into hk values ('zz=>1', 1);
delete from lk where l = 'a.b'; update lk set v = 7;
update ck set c = 'kEY5' where c = 'key5'; update ck set v = -1 where c = 'key6';
update dk set c = 'wORD'; insert into dk values ('Word', '{3}', 1);
update ok set k = 'ONE' where k = 'one'; update ok set v = -2 where k = 'two';
update m set m = 'sad' where id = 3; update m set f = 'great' where id = 4; update pts set p = '(9,9)' where n = 2;
update aa_stuck set v = -1 where id = 1; alter table aa_stuck add constraint high check (v <> 1) not valid;
update zz set v = -1;
)");
  // More than a report lists, in a table in the middle.
  tamper("update much set u = -u; update much set u = case when id = 10100 then 1 else id + 1 end");
  auto found = verify({"--repair"});
  EXPECT_EQ(found.result.code, 8) << found.result;
  EXPECT_EQ(found.report.value("differences_total", 0), 10100 + 3001 + 700 + 2 + 2 + 3 + 3 + 3 + 2 + 2 + 1 + 1 + 1);
  EXPECT_THAT(not_repaired(found), ::testing::ElementsAre("\"public\".\"aa_stuck\"", "\"public\".\"much\""))
      << found.result;
  EXPECT_THAT(found.result.err, HasSubstr("ERROR: the target does not accept a row of the source: "));
  EXPECT_THAT(found.result.err, HasSubstr("copy the table again with `pgbaton resync`"));
  EXPECT_EQ(found.report.value("remaining", -1), 10101);
  EXPECT_THAT(differences(source().conninfo(), target().conninfo(), {.exclude = {"public.aa_stuck", "public.much"}}),
              IsEmpty());
  expect_same(points);
  expect_same(moods);
  EXPECT_EQ(target().number("select count(*) from flags where f" + std::to_string(flips.front())), 0);
  tamper("alter table aa_stuck drop constraint high; update much set u = -u; update much set u = id where id > 100");
  found = verify({"--repair"});
  EXPECT_EQ(found.result.code, 0) << found.result;
  EXPECT_THAT(not_repaired(found), IsEmpty());
  expect_equal();

  // Names that choose nothing of the replica.
  source().exec("create table newt (id int primary key); create schema other; create table other.t (id int)");
  for (const Arguments& choice :
       {Arguments{"--include-table", "newt"}, Arguments{"--include-table", "zz", "--include-table", "other.*"},
        Arguments{"--include-schema", "other"}, Arguments{"--include-table", "zz", "--exclude-table", "zz"},
        Arguments{"--include-table", "nothing"}, Arguments{"--exclude-table", "nothing"}}) {
    const auto refused = verify(choice);
    EXPECT_EQ(refused.result.code, 2) << choice.back() << refused.result;
    EXPECT_THAT(refused.result.err, HasSubstr("HINT: "));
  }
  EXPECT_EQ(verify({"--include-table", "zz", "--exclude-table", "newt"}).report.value("tables_compared", 0), 1);
}

// Without the right to set session_replication_role the target's foreign keys act on what is repaired.
TEST_F(VerifyRepairTest, NoForeignKeyOfTheTargetChangesMoreThanTheRepair) {
  role_ = "app";
  const Arguments target_as_app{"--schema", "none", "--jobs", "1"};
  const auto as_app = [&](const std::string& command, const Arguments& more) {
    Arguments all{command, "--source", source().conninfo(), "--target", target().conninfo("postgres", role_)};
    all.insert(all.end(), target_as_app.begin(), target_as_app.end());
    all.insert(all.end(), more.begin(), more.end());
    return Tool::run(all, Milliseconds(60'000));
  };
  constexpr const char* kSchema =
      "create table z (id int primary key, v int);"
      "create table q (id int primary key, v int) partition by range (id);"
      "create table q1 partition of q for values from (0) to (100);"
      "create table a (id int primary key, u int unique, v int, z int references z);"
      "create table b (id int primary key, aid int references a on delete cascade, n int references a on delete set "
      "null, bu int);";
  source().exec(kSchema);
  source().exec(
      "insert into q select g, g from generate_series(1, 9) g;"
      "insert into z select g, g from generate_series(1, 4000) g;"
      "insert into a select g, g, g, 1 from generate_series(1, 2000) g;"
      "insert into b select g, g, g, null from generate_series(1, 7) g; insert into b values (8, null, null, 8)");
  target().exec("create role app login; alter database postgres owner to app; alter schema public owner to app");
  Session(target().conninfo("postgres", role_))
      .exec(std::string(kSchema) +
            "create table own (aid int references q on delete cascade);"
            "alter table b add constraint alone foreign key (bu) references z on delete set null;"
            "create function nothing() returns trigger language plpgsql as 'begin return new; end';"
            "create trigger noisy before insert on z for each row execute function nothing()");

  // Said beforehand, with the statement that helps.
  const auto check = as_app("check", {"--json"});
  EXPECT_EQ(check.code, 3) << check;
  std::multiset<std::string> said;
  const auto findings = Json::parse(check.out);
  for (const auto& finding : findings.at("findings"))
    if (const auto id = finding.at("id").get<std::string>();
        id.starts_with("target.foreign") || id == "target.trigger") {
      const auto remedy = finding.at("remedy").get<std::string>();
      said.insert(finding.at("severity").get<std::string>() + " " + id + " " + finding.at("object").get<std::string>() +
                  " " + remedy.substr(0, remedy.find(';')));
    }
  EXPECT_THAT(said, ::testing::ElementsAre(
                        "blocker target.foreign_action public.b ALTER TABLE public.b DROP CONSTRAINT alone",
                        "blocker target.foreign_action public.b ALTER TABLE public.b DROP CONSTRAINT b_aid_fkey",
                        "warning target.foreign_key public.a ALTER TABLE public.a DROP CONSTRAINT a_z_fkey",
                        "warning target.foreign_key public.b ALTER TABLE public.b DROP CONSTRAINT b_n_fkey",
                        "warning target.foreign_key public.own ALTER TABLE public.own DROP CONSTRAINT own_aid_fkey",
                        "warning target.trigger public.z ALTER TABLE public.z DISABLE TRIGGER noisy"))
      << check;
  EXPECT_EQ(as_app("clone", {"--until", "caught-up"}).code, 3);
  target().exec("alter table b drop constraint alone, drop constraint b_aid_fkey, drop constraint b_n_fkey");
  const auto clone = as_app("clone", {"--until", "caught-up"});
  ASSERT_EQ(clone.code, 0) << clone;
  const std::string acting =
      "alter table b add constraint takes foreign key (aid) references a on delete cascade,"
      "add constraint empties foreign key (n) references a on delete set null,"
      "add constraint follows foreign key (bu) references a (u) on update cascade";
  target().exec(acting);

  const auto expect_repaired = [&] {
    const auto found = verify({"--repair"});
    EXPECT_EQ(found.result.code, 0) << found.result;
    expect_equal({.exclude = {"public.own"}});
  };
  const auto expect_refused = [&](const std::string& table, const std::string& constraint) {
    const auto found = verify({"--repair"});
    EXPECT_EQ(found.result.code, 8) << found.result;
    EXPECT_THAT(found.result.err, HasSubstr("foreign key " + constraint + " of public."));
    EXPECT_THAT(found.result.err, HasSubstr("DROP CONSTRAINT " + constraint + ";"));
    EXPECT_THAT(not_repaired(found), ::testing::Contains("\"public\".\"" + table + "\""));
  };
  // A parent is updated where it stands. Children that are nobody's go first, parents after them; what is missing comes
  // in the other order.
  tamper(
      "update a set v = -1 where id = 3; update a set v = -1, u = -u where id > 1600;"
      "insert into a values (9001, 9001); insert into b values (9001, 9001, 9001);"
      "delete from z where id = 1; delete from a where id between 1500 and 1510");
  expect_repaired();
  // It has to go and come again: not with children that would go, too. Others are repaired.
  tamper(
      "update a set u = -1 where id = 5; update a set u = 5 where id = 6; update a set u = 6 where id = 5;"
      "update z set v = -1 where id = 9");
  expect_refused("a", "takes");
  EXPECT_EQ(target().number("select count(aid) + count(n) from b"), 14);
  EXPECT_EQ(target().number("select v from z where id = 9"), 9);
  target().exec("alter table b drop constraint takes, drop constraint empties, drop constraint follows");
  expect_repaired();
  target().exec(acting);
  // The target's own rows stay.
  tamper("insert into q values (99, 99); insert into own values (99)");
  expect_refused("q1", "own_aid_fkey");
  EXPECT_EQ(target().number("select count(*) from own"), 1);
  target().exec("truncate own");
  // Values that are referred to.
  tamper("update a set u = -8 where id = 8; update b set bu = -8 where id = 8");
  expect_refused("a", "follows");
  EXPECT_EQ(target().number("select bu from b where id = 8"), -8);
  target().exec("alter table b drop constraint follows");
  expect_repaired();
  // A trigger that changes another table, under the replica role, too, is not believed to have changed nothing.
  tamper("update z set v = -1 where id = 7");
  target().exec(
      "create function meddle() returns trigger language plpgsql as 'begin update public.q1 set v = -1 where id = 1; "
      "return new; end'; create trigger meddling after update on z for each row execute function meddle();"
      "alter table z enable always trigger meddling; update pgbaton.replica set replica_role = true");
  role_ = "postgres";
  const auto spread = verify({"--repair"});
  EXPECT_EQ(spread.result.code, 6) << spread.result;
  EXPECT_EQ(spread.report.value("remaining", -1), 1);
}

}  // namespace
}  // namespace pgbaton::testing
