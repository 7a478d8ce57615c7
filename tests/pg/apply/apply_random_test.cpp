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

enum class Guarded { column, column_and_tombstones, ledger };
void PrintTo(Guarded guarded, std::ostream* out) {
  *out << (guarded == Guarded::column ? "column" : guarded == Guarded::ledger ? "ledger" : "column_and_tombstones");
}

class RandomApply : public ApplyTest, public ::testing::WithParamInterface<Guarded> {
 protected:
  void SetUp() override {
    ApplyTest::SetUp();
    for (const char* name : {"plain", "batch", "each"})
      db().exec("create table " + std::string(name) +
                " (id int, \"s K\" text, a text, b text, arr int[], primary key (id, \"s K\"))");
    guarded("plain", {});
  }
  // The table as `seen_<table>`, with the guard as its last column.
  apply::TargetTable make(const std::string& name) {
    const std::vector<std::string> key{"id", "s K"};
    const bool has_ledger = GetParam() == Guarded::ledger;
    auto table = has_ledger ? ledgered(name, key) : guarded(name, key);
    if (has_ledger)
      db().exec("create view seen_" + name + " as select t.*, l.commit_lsn from " + name + " t join " + table.ledger +
                " l on (l.k1, l.k2) = (t.id, t.\"s K\") and not l.deleted");
    else
      db().exec("create view seen_" + name + " as table " + name);
    return table;
  }
  std::unique_ptr<apply::Applier> make_applier(apply::Strategy strategy) {
    auto options = this->options(strategy);
    options.tombstones = std::make_shared<apply::TombstoneRule>(GetParam() == Guarded::column_and_tombstones);
    return std::make_unique<apply::Applier>(pg::Connection::open(endpoint(), "apply"), options);
  }
  static std::string difference(const std::string& table) {
    return "(table plain except all table seen_" + table + ") union all (table seen_" + table +
           " except all table plain)";
  }
  // Keys that are gone have a tombstone, at the LSN of their last change, and no entry says otherwise.
  std::string stones(const apply::TargetTable& table) const {
    if (GetParam() == Guarded::ledger) return "select k1::text, k2, commit_lsn from " + table.ledger + " where deleted";
    return "select key::json->>0, key::json->>1, commit_lsn from pgbaton.tombstone s where table_name = '" +
           table.name.name + "' and not exists (select from " + table.quoted +
           " t where t.id::text = s.key::json->>0 and t.\"s K\" = s.key::json->>1)";
  }
};

INSTANTIATE_TEST_SUITE_P(Guard, RandomApply,
                         ::testing::Values(Guarded::column, Guarded::column_and_tombstones, Guarded::ledger),
                         ::testing::PrintToStringParamName());

TEST_P(RandomApply, BothStrategiesEqualPlainSql) {
  const apply::TargetTable batch_table = make("batch"), each_table = make("each");
  const auto batch_applier = make_applier(apply::Strategy::batch),
             each_applier = make_applier(apply::Strategy::change_by_change);
  unsigned lsn = 16;
  for (unsigned seed = 1; seed <= 6; ++seed) {
    db().exec("truncate plain, batch, each");
    if (GetParam() == Guarded::ledger)  // the random source begins anew, at the LSNs that follow
      db().exec("update " + batch_table.ledger + " set deleted = true; update " + each_table.ledger +
                " set deleted = true");
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
    if (GetParam() == Guarded::column) continue;
    ASSERT_GT(rows(stones(batch_table)).size(), 5);
    ASSERT_THAT(rows("(" + stones(batch_table) + ") except all (" + stones(each_table) + ")"), IsEmpty());
    ASSERT_THAT(rows("(" + stones(each_table) + ") except all (" + stones(batch_table) + ")"), IsEmpty());
  }
  EXPECT_EQ(batch_applier->counters().fallbacks, 0);
  EXPECT_LT(batch_applier->counters().rows_written, each_applier->counters().rows_written);
  EXPECT_EQ(batch_applier->counters().stale + each_applier->counters().stale, 0);
}

}  // namespace
}  // namespace pgbaton::testing
