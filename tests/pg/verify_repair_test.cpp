// What is hard to repair: unique values that changed places among thousands of rows, keys of extensions' types, casts
// that lie, rows that hash alike, tables that cannot be repaired beside others that can, and foreign keys of the target
// that would change more than the repair.
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

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
create domain feeling as mood;
create table m (id int primary key, m mood, f feeling); insert into m select g, 'good', 'sad' from generate_series(1, 9) g;
create table pts (p point, n int); alter table pts replica identity full;
insert into pts values ('(1,1)', 1), ('(2,2)', 1), ('(3,3)', 1);
create table zz (id int primary key, v int); insert into zz values (1, 1);
)";

TEST_F(VerifyRepairTest, EveryTableThatCanBeRepairedIs) {
  source().exec(kTables);
  source().exec("create table flags (" + list(", ", [](int i) { return "f" + std::to_string(i) + " bool"; }) +
                "); alter table flags replica identity full; insert into flags select " +
                list(", ", [](int) { return std::string("false"); }));
  clone_until_caught_up({"--keyless", "full"});
  // The stream finds the right one of rows that the cast calls equal.
  source().exec("update pts set n = 2 where p ~= '(2,2)'; update m set m = 'great' where id = 9");
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
  EXPECT_EQ(verify().report.value("differences_total", 0), 3001 + 700 + 2 + 2 + 3 + 3 + 3 + 2 + 2 + 1 + 1 + 1);
  auto found = verify({"--repair"});
  EXPECT_EQ(found.result.code, 8) << found.result;
  EXPECT_THAT(not_repaired(found), ::testing::ElementsAre("\"public\".\"aa_stuck\"")) << found.result;
  EXPECT_THAT(found.result.err, HasSubstr("ERROR: the target does not accept a row of the source: "));
  EXPECT_EQ(found.report.value("remaining", -1), 1) << found.result;
  EXPECT_THAT(differences(source().conninfo(), target().conninfo(), {.exclude = {"public.aa_stuck"}}), IsEmpty());
  expect_same(points);
  expect_same(moods);
  EXPECT_EQ(target().number("select count(*) from flags where f" + std::to_string(flips.front())), 0);
  target().exec("alter table aa_stuck drop constraint high");
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

}  // namespace
}  // namespace pgbaton::testing
