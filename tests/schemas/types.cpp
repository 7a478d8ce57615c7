#include "types.hpp"

#include <fmt/format.h>

#include <array>
#include <vector>

namespace pgbaton::schemas {

const char* const kSharedTypes = R"(
create extension citext schema public;
create collation public.ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
)";

const char* const kOwnTypes = R"(
create type "Mood" as enum ('sad', 'o''k', 'very happy', '\x');
create domain positive as int check (value > 0);
create domain label as text not null default 'none' constraint short check (length(value) < 20000);
create type pair as (a int, "B b" text, c numeric(10,2)[]);
create type nested as (p pair, m "Mood", d positive);
create type span as range (subtype = text, collation = "C");
create table audit (id bigserial primary key, what text);
create function note() returns trigger language plpgsql as $$ begin
  insert into audit (what) values (tg_table_name || ' ' || tg_op); return null; end $$;
create function bump() returns trigger language plpgsql as $$ begin
  new.bumps := new.bumps + 1; return new; end $$;
)";

namespace {

std::string small(Random& random) {
  return std::to_string(pick(random, 1, 60));
}

std::string quoted(Random& random) {
  static constexpr std::array kTexts{"''",
                                     "'a'",
                                     "'A'",
                                     "'NULL'",
                                     "'\\N'",
                                     "'it''s'",
                                     "'tab\tand\nline'",
                                     "'back\\slash'",
                                     "'{curly,\"x\"}'",
                                     "'\xc3\xa4\xc3\xb6\xe2\x82\xac \xf0\x9f\x98\x80'",
                                     "' space '",
                                     "'(1,2)'",
                                     "E'\\x01\\r\\n'"};
  if (chance(random, 50)) return any_of(random, kTexts);
  return fmt::format("'text {}'", pick(random, 1, 60));
}

// Compressible, incompressible, or short: inline, compressed, and out of line.
std::string long_text(Random& random) {
  const int kind = pick(random, 1, 100);
  if (kind <= 20) return fmt::format("repeat('{}abc', {})", pick(random, 0, 9), pick(random, 100, 4000));
  if (kind <= 40)
    return fmt::format("(select string_agg(md5(g || '{}'), '') from generate_series(1, {}) g)", pick(random, 0, 99),
                       pick(random, 20, 220));
  return quoted(random);
}

std::string number(Random& random) {
  static constexpr std::array kNumbers{"0",           "0.00", "-0.5",        "1.0",
                                       "1.00",        "1",    "'NaN'",       "'Infinity'",
                                       "'-Infinity'", "1e30", "0.000000001", "-12345678901234567890.0987654321"};
  return fmt::format("({})::numeric",
                     chance(random, 50) ? std::string(any_of(random, kNumbers)) : small(random) + ".50");
}
std::string floating(Random& random) {
  static constexpr std::array kNumbers{"0",           "-0.0", "'-0'",  "'NaN'",  "'Infinity'",
                                       "'-Infinity'", "0.1",  "1e-30", "3.4e37", "1.1754944e-38"};
  return fmt::format("({})::float8",
                     chance(random, 50) ? std::string(any_of(random, kNumbers)) : small(random) + ".25");
}
std::string real(Random& random) {
  return floating(random) + "::real";
}
std::string day(Random& random) {
  if (chance(random, 8)) return chance(random, 50) ? "date 'infinity'" : "date '0044-03-15 BC'";
  return fmt::format("(date '1999-12-20' + {})", pick(random, 1, 60));
}
std::string moment(Random& random) {
  if (chance(random, 8)) return "timestamptz '-infinity'";
  return fmt::format("timestamptz '2024-03-31 0{}:59:59.{:06} +05:30'", pick(random, 0, 9), pick(random, 0, 20));
}
std::string plain_moment(Random& random) {
  return fmt::format("timestamp '2024-02-29 0{}:00:00.{:03}'", pick(random, 0, 9), pick(random, 0, 20));
}
std::string interval(Random& random) {
  static constexpr std::array kIntervals{"'30 days'", "'1 month'", "'720:00:00'", "'-1 year 2 days -03:04:05.5'"};
  return std::string("interval ") + (chance(random, 60) ? any_of(random, kIntervals) : "'" + small(random) + " min'");
}
std::string array_of(Random& random, std::string (*element)(Random&), const char* type, bool nulls) {
  const int count = pick(random, 0, 4);
  std::string text;
  for (int i = 0; i < count; ++i)
    text += (i == 0 ? "" : ", ") + (nulls && chance(random, 15) ? "null" : element(random));
  return fmt::format("array[{}]::{}[]", text, type);
}
std::string mood(Random& random) {
  static constexpr std::array kMoods{"'sad'", "'o''k'", "'very happy'", "E'\\\\x'"};
  return std::string(any_of(random, kMoods)) + "::\"Mood\"";
}
std::string pair(Random& random) {
  const auto a = chance(random, 20) ? "null" : small(random);
  return fmt::format("row({}, {}, array[{}, 1.50])::pair", a, quoted(random), pick(random, 1, 60));
}
std::string json(Random& random) {
  static constexpr std::array kDocs{"'{\"a\": [1, 2.0, null], \"b\": \"\\u00e4\"}'", "'[]'", "'\"x\"'",
                                    "'  {\"k\" :1}'"};
  if (chance(random, 50)) return any_of(random, kDocs);
  return fmt::format("to_jsonb({}::text)::text", long_text(random));
}
std::string bytes(Random& random) {
  if (chance(random, 20))
    return fmt::format("(select string_agg(decode(md5(g::text), 'hex'), '') from generate_series(1, {}) g)",
                       pick(random, 50, 300));
  return fmt::format("'\\x00{:02x}ff5c'::bytea", pick(random, 0, 60));
}
std::string range(Random& random) {
  if (chance(random, 10)) return "'empty'::int4range";
  const int low = pick(random, 1, 60);
  return fmt::format("int4range({}, {}, '{}')", chance(random, 10) ? "null" : std::to_string(low),
                     low + pick(random, 1, 9), chance(random, 50) ? "[]" : "(]");
}

#define VALUE(expression) [](Random& random) -> std::string { return expression; }

// respell's value must equal {} for the type and differ, sometimes, as text.
const std::array kTypes{
    Type{"int", small, nullptr, 12},
    Type{"bigint", VALUE(small(random) + "::bigint * 100000000000"), nullptr, 6},
    Type{"smallint", VALUE(small(random) + "::smallint"), nullptr, 2},
    Type{"text", long_text},
    Type{"text", VALUE(quoted(random) + "::text"), nullptr, 8},
    Type{"varchar(20)", VALUE(quoted(random) + "::varchar(20)"), nullptr, 3},
    Type{"char(12)", VALUE(quoted(random) + "::char(12)"), nullptr, 2},
    Type{"\"char\"", VALUE("'" + small(random) + "'::\"char\"")},
    Type{"name", VALUE("'n" + small(random) + "'::name"), nullptr, 1},
    Type{"text collate public.ci", VALUE(quoted(random) + "::text"),
         "case when {0} = upper({0}) then lower({0}) else upper({0}) end", 3},
    Type{"public.citext", VALUE(quoted(random) + "::public.citext"),
         "case when {0}::text = upper({0}::text) then lower({0}::text) else upper({0}::text) end::public.citext", 4},
    Type{"numeric", number, "case when scale({0}) > 3 then trim_scale({0}) else {0} + 0.000 end", 5},
    Type{"numeric(12,3)", VALUE(small(random) + ".125"), nullptr, 1},
    Type{"float8", floating, "case when {0} = 0 then - {0} else {0} end", 2},
    Type{"real", real},
    Type{"bool", VALUE(chance(random, 50) ? "true" : "false")},
    Type{"date", day, nullptr, 3},
    Type{"timestamptz", moment, nullptr, 3},
    Type{"timestamp(3)", plain_moment, nullptr, 1},
    Type{"time", VALUE("time '0" + std::to_string(pick(random, 0, 9)) + ":30:00.5'")},
    Type{"timetz", VALUE("timetz '10:30:00+0" + std::to_string(pick(random, 0, 9)) + "'")},
    Type{"interval", interval, "case when extract(month from {0}) = 0 then justify_days({0}) else {0} end", 2},
    Type{"uuid", VALUE("md5('" + small(random) + "')::uuid"), nullptr, 3},
    Type{"bytea", bytes},
    Type{"bytea", VALUE("'\\x00ff0" + std::to_string(pick(random, 0, 9)) + "'::bytea"), nullptr, 1},
    Type{"json", VALUE(json(random) + "::json")},
    Type{"jsonb", VALUE(json(random) + "::jsonb")},
    Type{"xml", VALUE("('<a>' || " + small(random) + " || '</a>')::xml")},
    Type{"money", VALUE(small(random) + ".5::numeric::money")},
    Type{"inet", VALUE("'10.0.0." + small(random) + "/24'::inet"), nullptr, 1},
    Type{"cidr", VALUE("'10." + small(random) + ".0.0/16'::cidr")},
    Type{"macaddr", VALUE("'08:00:2b:01:02:" + std::to_string(pick(random, 10, 60)) + "'::macaddr")},
    Type{"point", VALUE("point(" + small(random) + ", 0.1)")},
    Type{"box", VALUE("box(point(0, 0), point(" + small(random) + ", 1))")},
    Type{"polygon", VALUE("'((0,0),(1,1),(" + small(random) + ",0))'::polygon")},
    Type{"bit(7)", VALUE(small(random) + "::bit(7)")},
    Type{"varbit", VALUE("(" + small(random) + "::bit(9))::varbit"), nullptr, 1},
    Type{"oid", VALUE(small(random) + "::oid"), nullptr, 1},
    Type{"pg_lsn", VALUE("'0/" + small(random) + "'::pg_lsn"), nullptr, 1},
    Type{"xid8", VALUE("'" + small(random) + "'::xid8")},
    Type{"tsvector", VALUE("to_tsvector('simple', " + quoted(random) + ")")},
    Type{"tsquery", VALUE("'a & b" + small(random) + ":*'::tsquery")},
    Type{"jsonpath", VALUE("'$.a[" + small(random) + "]'::jsonpath")},
    Type{"regclass", VALUE(chance(random, 50) ? "'pg_class'::regclass" : "'pg_type'::regclass")},
    Type{"int4range", range, nullptr, 1},
    Type{"int4multirange", VALUE("int4multirange(" + range(random) + ", int4range(90, 95))")},
    Type{"numrange", VALUE("numrange(1.0, " + small(random) + ".00 + 1.0)")},
    Type{"tstzrange", VALUE("tstzrange(null, " + moment(random) + ", '(]')")},
    Type{"span", VALUE("span('a', 'b" + small(random) + "')")},
    Type{"\"Mood\"", mood, nullptr, 1},
    Type{"positive", VALUE(small(random) + "::positive"), nullptr, 2},
    Type{"label", VALUE(quoted(random) + "::label"), nullptr, 1},
    Type{"pair", pair},
    Type{"nested", VALUE("row(" + pair(random) + ", " + mood(random) + ", " + small(random) + ")::nested")},
    Type{"int[]", VALUE(array_of(random, small, "int", true)), nullptr, 1},
    Type{"int[]", VALUE("'[0:1][-1:0]={{1,2},{3," + small(random) + "}}'::int[]")},
    Type{"text[]", VALUE(array_of(random, long_text, "text", true))},
    Type{"numeric[]", VALUE(array_of(random, number, "numeric", true))},
    Type{"\"Mood\"[]", VALUE(array_of(random, mood, "\"Mood\"", true))},
    Type{"pair[]", VALUE(array_of(random, pair, "pair", true))},
    Type{"positive[]", VALUE(array_of(random, small, "positive", false))},
    Type{"int4range[]", VALUE(array_of(random, range, "int4range", true))},
    Type{"bytea[]", VALUE(array_of(random, bytes, "bytea", true))},
};
#undef VALUE

std::vector<const Type*> weigh_keys() {
  std::vector<const Type*> list;
  for (const auto& type : kTypes) list.insert(list.end(), static_cast<std::size_t>(type.key_weight), &type);
  return list;
}

}  // namespace

std::span<const Type> all_types() {
  return kTypes;
}
const Type& any_type(Random& random) {
  return chance(random, 25) ? kTypes[3] : any_of(random, kTypes);
}
const Type& any_key_type(Random& random) {
  static const auto kKeys = weigh_keys();
  return *any_of(random, kKeys);
}
const Type& integer_type() {
  return kTypes[0];
}
const Type& range_type() {
  static const Type kRange{"int4range", range};
  return kRange;
}

}  // namespace pgbaton::schemas
