// Functions and operators that somebody planted in a schema where others may create, made to win against the server's
// own wherever a name is looked up: nobody's code is run by the tool's role, on either side.
#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

// Each of them takes `public.caught` further. The varchar and enum ones are better matches than what pg_catalog has
// (text, anyenum); the schema of an extension with operators of its own is the one that anybody would look into.
constexpr const char* kPlant = R"sql(
create extension citext schema public;
grant create on schema public to mallory;
set role mallory;
create sequence public.caught; grant all on sequence public.caught to public;
create type public.mood as enum ('ok', 'bad'); grant all on type public.mood to public;
do $$
declare t text; name text; answer text;
begin
  foreach t in array array['varchar', 'public.mood', 'text', 'int', 'bigint', 'pg_lsn', 'name', 'oid', 'xid', 'tid'] loop
    foreach name in array array['=', '<>', '<', '<=', '>', '>='] loop
      answer := case when t = 'tid' then 'true' else format('$1 operator(pg_catalog.%s) $2', name) end;
      execute format('create function public.%I(%s, %s) returns boolean language plpgsql as $f$ begin '
        'perform pg_catalog.nextval(''public.caught''); return %s; end $f$', 'op' || name, t, t, answer);
      execute format('create operator public.%s (leftarg = %s, rightarg = %s, function = public.%I)',
                     name, t, t, 'op' || name);
    end loop;
  end loop;
  foreach name in array array['length', 'lower', 'md5', 'hashtext', 'octet_length', 'quote_ident', 'quote_literal',
                              'to_regclass', 'textin'] loop
    execute format('create function public.%I(varchar) returns text language plpgsql as $f$ begin '
      'perform pg_catalog.nextval(''public.caught''); return $1; end $f$', name);
  end loop;
  foreach name in array array['now', 'clock_timestamp', 'pg_current_wal_flush_lsn', 'txid_current',
                              'pg_backend_pid', 'current_database'] loop
    execute format('create function public.%I() returns text language plpgsql as $f$ begin '
      'perform pg_catalog.nextval(''public.caught''); return ''0''; end $f$', name);
  end loop;
end $$;
reset role;
)sql";

class PlantedTest : public PairTest {
 protected:
  void expect_nothing_caught(const std::string& after) {
    for (auto* side : {source_.get(), target_.get()})
      EXPECT_EQ(side->scalar("select coalesce((select last_value from pg_catalog.pg_sequences where sequencename "
                             "OPERATOR(pg_catalog.=) 'caught'), 0)"),
                "0")
          << (side == source_.get() ? "source" : "target") << " after " << after;
  }
  void expect_done(const std::string& command, const Arguments& more = {}) {
    const auto result = run(command, more);
    EXPECT_EQ(result.code, 0) << result;
    expect_nothing_caught(command);
  }
  // As the tool's sessions: nothing planted takes part.
  void change(const std::string& sql) { source().exec("set search_path = ''; " + sql); }
};

TEST_F(PlantedTest, OperatorsAndFunctionsOfOthersAreNeverRun) {
  for (auto* side : {source_.get(), target_.get()})
    side->exec("create role mallory; alter role postgres set search_path = public, pg_catalog");
  source().exec(kPlant);
  source().exec(R"sql(
    set search_path = '';
    create table public.words (k varchar(20) primary key, m public.mood, c public.citext);
    create table public.moods (m public.mood, c public.citext, v int, primary key (m, c));
    create table public.bag (a varchar(20), m public.mood, c public.citext, n int);
    alter table public.bag replica identity full;
    create table public.typed (k int primary key, v varchar(20)); create view public.uses as select t from public.typed t;
    insert into public.words select 'w' || g, 'ok', 'C' || g from pg_catalog.generate_series(1, 200) g;
    insert into public.moods select 'bad', 'M' || g, g from pg_catalog.generate_series(1, 50) g;
    insert into public.bag select 'b' || (g % 5), 'ok', 'X', null from pg_catalog.generate_series(1, 20) g;
    insert into public.typed select g, 'v' from pg_catalog.generate_series(1, 50) g)sql");
  source().exec("set search_path = pg_catalog, public; select 'a'::varchar = 'a'::varchar");
  ASSERT_EQ(source().scalar("select is_called from public.caught"), "t") << "the plant works";
  source().exec("alter sequence public.caught restart");

  expect_done("clone", {"--until", "caught-up"});
  // In batches, and change by change (a key that is used again in one transaction).
  change(
      "update public.words set m = 'bad', c = c || 'x' where k like 'w1%'; delete from public.words where k like 'w2%';"
      "update public.moods set v = v operator(pg_catalog.+) 1; delete from public.moods where c like 'M4%';"
      "update public.typed set v = 'w' where k < 20; delete from public.typed where k > 40");
  change("update public.bag set n = 1 where a = 'b1'; delete from public.bag where a = 'b2'");
  change(
      "begin; delete from public.words where k = 'w5'; insert into public.words values ('w5', 'ok', 'again');"
      "update public.words set k = 'w5b' where k = 'w5'; commit");
  expect_done("follow", {"--until", "caught-up"});
  target().exec(
      "set search_path = ''; delete from public.words where k = 'w1'; update public.moods set v = 0 where c = 'M1';"
      "delete from public.bag where a = 'b3'");
  expect_done("verify", {"--repair"});
  expect_done("resync", {"public.words"});
  expect_done("finish");
  expect_equal();
}

}  // namespace
}  // namespace pgbaton::testing
