// The two strategies and plain SQL, given the same random but legal stream, must end with the same rows and guards.
#include "apply_fixture.hpp"

#include <map>
#include <random>

namespace pgbaton::testing {
namespace {

using ::testing::IsEmpty;

// A source in memory: draws a legal change, remembers what it means, and words it as plain SQL too.
class RandomSource {
 public:
  RandomSource(unsigned seed, const apply::TargetTable& batch, const apply::TargetTable& each)
      : random_(seed), batch_table_(batch), each_table_(each) {}

  void draw(unsigned lsn, ChangeLog& batch, ChangeLog& each, std::string& sql) {
    const Key key = draw_key();
    const auto found = rows_.find(key);
    if (found == rows_.end()) {
      const Cells row = draw_row(key);
      batch.insert(batch_table_, lsn, row);
      each.insert(each_table_, lsn, row);
      sql += "insert into plain values (" + literals(row) + ", '" + to_string(Lsn{lsn}) + "');";
      rows_[key] = row;
    } else if (below(100) < 30) {
      const Cells old_row{key.first, key.second, kNull, kNull, kNull};
      batch.remove(batch_table_, lsn, old_row);
      each.remove(each_table_, lsn, old_row);
      sql += "delete from plain where " + match(key) + ";";
      rows_.erase(found);
    } else {
      update(lsn, key, batch, each, sql);
    }
  }

 private:
  using Key = std::pair<int, std::string>;

  unsigned below(unsigned end) { return static_cast<unsigned>(random_() % end); }
  Key draw_key() { return {static_cast<int>(below(8)) - 3, std::string("k\"\\,{") + std::to_string(below(7))}; }

  Cell draw_text() {
    static const std::vector<Cell> hard{kNull, "",      "NULL",      "null", "\\N", "a\"b",
                                        "a\\", "{x,y}", "t\tn\nr\r", "'",    "ü€𝄞"};
    return below(3) == 0 ? Cell("v" + std::to_string(below(1'000'000)))
                         : hard[below(static_cast<unsigned>(hard.size()))];
  }
  Cells draw_row(const Key& key) {
    static const std::vector<Cell> arrays{kNull, "{}", "{1,NULL,3}", "[2:3]={5,6}", "{{1,2},{3,4}}"};
    return {key.first, key.second, draw_text(), draw_text(), arrays[below(static_cast<unsigned>(arrays.size()))]};
  }

  void update(unsigned lsn, const Key& key, ChangeLog& batch, ChangeLog& each, std::string& sql) {
    const Cells before = rows_.at(key);
    Key new_key = below(100) < 25 ? draw_key() : key;
    if (rows_.contains(new_key)) new_key = key;
    Cells row = draw_row(new_key), sent = row;
    for (std::size_t i : {std::size_t{3}, std::size_t{4}})
      if (below(2) == 0) {
        row[i] = before[i];
        sent[i] = kUnchanged;
      }
    const Cells old_row = new_key == key ? Cells{} : Cells{key.first, key.second, kNull, kNull, kNull};
    batch.update(batch_table_, lsn, sent, old_row);
    each.update(each_table_, lsn, sent, old_row);
    sql += "update plain set (id, \"s K\", a, b, arr, _pgbaton_lsn) = (" + literals(row) + ", '" + to_string(Lsn{lsn}) +
           "') where " + match(key) + ";";
    rows_.erase(key);
    rows_[new_key] = row;
  }

  static std::string literals(const Cells& row) {
    std::string text;
    for (const Cell& cell : row) text += (text.empty() ? "" : ", ") + literal(cell);
    return text;
  }
  static std::string literal(const Cell& cell) {
    return cell.kind == wire::ValueKind::null ? "null" : pgbaton::quote_literal(cell.text);
  }
  static std::string match(const Key& key) {
    return "id = " + std::to_string(key.first) + " and \"s K\" = " + pgbaton::quote_literal(key.second);
  }

  std::mt19937 random_;
  const apply::TargetTable &batch_table_, &each_table_;
  std::map<Key, Cells> rows_;
};

class RandomApply : public ApplyTest {
 protected:
  void SetUp() override {
    ApplyTest::SetUp();
    for (const char* name : {"plain", "batch", "each"})
      db().exec("create table " + std::string(name) +
                " (id int, \"s K\" text, a text, b text, arr int[], primary key (id, \"s K\"))");
    guarded("plain", {});
  }
  static std::string difference(const std::string& table) {
    return "(table plain except all table " + table + ") union all (table " + table + " except all table plain)";
  }
};

TEST_F(RandomApply, BothStrategiesEqualPlainSql) {
  const apply::TargetTable batch_table = guarded("batch", {"id", "s K"}), each_table = guarded("each", {"id", "s K"});
  const auto batch_applier = applier(apply::Strategy::batch), each_applier = applier(apply::Strategy::change_by_change);
  unsigned lsn = 16;
  for (unsigned seed = 1; seed <= 6; ++seed) {
    db().exec("truncate plain, batch, each");
    RandomSource source(seed, batch_table, each_table);
    std::mt19937 sizes(seed);
    for (int window = 0; window < 12; ++window) {
      ChangeLog batch, each;
      std::string sql;
      for (std::size_t i = sizes() % (window % 3 == 0 ? 400 : 30); i != std::size_t(-1); --i) {
        source.draw(lsn, batch, each, sql);
        lsn += sizes() % 2;  // some changes share a transaction
      }
      apply_all(*batch_applier, batch);
      apply_all(*each_applier, each);
      db().exec(sql);
      ASSERT_THAT(rows(difference("batch")), IsEmpty()) << "seed " << seed << " window " << window;
      ASSERT_THAT(rows(difference("each")), IsEmpty()) << "seed " << seed << " window " << window;
    }
  }
  EXPECT_EQ(batch_applier->counters().fallbacks, 0);
  EXPECT_LT(batch_applier->counters().rows_written, each_applier->counters().rows_written);
  EXPECT_EQ(batch_applier->counters().stale + each_applier->counters().stale, 0);
}

}  // namespace
}  // namespace pgbaton::testing
