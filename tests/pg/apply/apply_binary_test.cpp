// Values that travel in binary arrive as the source printed them: random ones of every type that has a binary form,
// with some in between that have none.
#include "apply_fixture.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::IsEmpty;

class BinaryTest : public ApplyTest {
 protected:
  void SetUp() override {
    ApplyTest::SetUp();
    db().exec(
        "set timezone = 'UTC'; set extra_float_digits = 3;"
        "create table t (id bigint primary key, i2 smallint, i4 int, f4 real, f8 float8, nu numeric, b boolean, d date,"
        " ts timestamp, tz timestamptz, u uuid, by bytea, jb jsonb, js json, tx text, vc varchar(50), ch char(5),"
        " ls pg_lsn)");
    table = guarded("t", {"id"});
    // float8send and its inverse make doubles of random bits; NaN and infinities are among them and have no binary
    // form.
    db().exec(
        "create table s as select g::bigint as id, (random() * 65535 - 32768)::int2 as i2, (random() * 4e9 - 2e9)::int "
        "as i4, (random() * 10 ^ (random() * 60 - 30))::real as f4, (random() * 10 ^ (random() * 600 - 300))::float8 "
        "as f8, round((random() * 10 ^ (random() * 12))::numeric * (10::numeric ^ (random() * 30)::int) * "
        "(case when g % 2 = 0 then 1 else -1 end), (g % 25)) as nu, g % 3 = 0 as b, date '0001-01-01' + (random() * "
        "3652058)::int as d, timestamp '0001-01-01' + random() * interval '9998 years' as ts, timestamptz '0001-01-01 "
        "00:00:00+00' + random() * interval '9998 years' as tz, gen_random_uuid() as u, decode(repeat(md5(g::text), g "
        "% "
        "4), 'hex') as by, jsonb_build_object('k', g, 'q', '\"\\') as jb, json_build_array(g, null, 'x') as js, "
        "repeat(chr(g % 90 + 33), g % 7) || E'\\t\\\\' as tx, 'v' || g as vc, 'c'::char(5) as ch, ('0/' || "
        "to_hex(g))::pg_lsn "
        "as ls "
        "from generate_series(1, 600) g;"
        "update s set tx = null, nu = null, tz = null, b = null where id % 7 = 0");
  }
  Cells cells(const Row& row) {
    Cells result;
    for (const Value& value : row) result.push_back(value ? Cell(*value) : kNull);
    return result;
  }
  // Rows of s that t does not hold, and the reverse.
  std::vector<std::string> differing(const std::string& lsn) {
    const std::string source = "select s::text from (select s.*, '" + lsn + "'::pg_lsn from s) s";
    return rows("(" + source + " except select t::text from t) union all (select t::text from t except " + source +
                ")");
  }

  apply::TargetTable table;
};

TEST_F(BinaryTest, RandomValuesByCopyAndByArrays) {
  const auto batch = applier();
  ChangeLog inserts, updates;
  for (const Row& row : db().query("select * from s order by id")) inserts.insert(table, 20, cells(row));
  apply_all(*batch, inserts);
  EXPECT_THAT(differing("0/14"), IsEmpty());
  db().exec(
      "update s set (i2, i4, f4, f8, nu, d, ts, tz, u, by, tx) = (select i2, i4, f4, f8, nu, d, ts, tz, u, by, tx "
      "from s o where o.id = 601 - s.id)");
  for (const Row& row : db().query("select * from s order by random()")) updates.update(table, 30, cells(row));
  apply_all(*batch, updates);
  EXPECT_THAT(differing("0/1E"), IsEmpty());
  EXPECT_EQ(batch->counters().fallbacks, 0);
}

// Values without a binary form change the way in the middle of a COPY and of a statement, not the rows.
TEST_F(BinaryTest, ValuesWithoutBinaryFormInBetween) {
  db().exec(
      "update s set nu = 'NaN' where id = 101; update s set f8 = '-Infinity', f4 = 'NaN' where id = 250;"
      "update s set d = 'infinity', ts = '-infinity', tz = '0044-03-15 12:00:00+00 BC' where id = 300;"
      "update s set d = '20000-01-01', f8 = '-0' where id = 599");
  const auto batch = applier();
  ChangeLog inserts, updates;
  for (const Row& row : db().query("select * from s order by id")) inserts.insert(table, 20, cells(row));
  apply_all(*batch, inserts);
  EXPECT_THAT(differing("0/14"), IsEmpty());
  db().exec("update t set (nu, f8, f4, d, ts, tz, tx) = (1, 1, 1, '2000-01-01', '2000-01-01', '2000-01-01', 'other')");
  for (const Row& row : db().query("select * from s")) updates.update(table, 30, cells(row));
  apply_all(*batch, updates);
  EXPECT_THAT(differing("0/1E"), IsEmpty());
  EXPECT_EQ(batch->counters().fallbacks, 0);
}

}  // namespace
}  // namespace pgbaton::testing
