#include "batch.hpp"

#include "key_index.hpp"
#include "text_format.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace pgbaton::apply {

namespace {

struct KeyState {
  bool existed;           // before this step
  bool present;           // now
  bool replaced = false;  // existed, was deleted and inserted again
  wire::Tuple row;        // unchanged values only while existed and never replaced; absent: the key columns count
  Lsn commit_lsn;
};

bool has_unchanged(wire::Tuple row) {
  return std::any_of(row.begin(), row.end(), [](const auto& v) { return v.kind == wire::ValueKind::unchanged; });
}

bool same_key(const TargetTable& table, wire::Tuple a, wire::Tuple b) {
  return std::all_of(table.key.begin(), table.key.end(), [&](std::size_t i) { return a[i].data == b[i].data; });
}

// A Relation message that repeats what is known (the server sends one after any invalidation) must not end a step.
bool same_shape(const TargetTable& a, const TargetTable& b) {
  auto same_column = [](const TargetColumn& x, const TargetColumn& y) {
    return x.name == y.name && x.cast_type == y.cast_type && x.identity_always == y.identity_always;
  };
  return a.key == b.key && a.guard == b.guard && a.ledger == b.ledger && a.delivery == b.delivery &&
         a.old_rows_are_full == b.old_rows_are_full &&
         std::equal(a.columns.begin(), a.columns.end(), b.columns.begin(), b.columns.end(), same_column);
}

bool has_plain_identity_always(const TargetTable& table) {
  return std::any_of(table.columns.begin(), table.columns.end(),
                     [](const TargetColumn& c) { return c.identity_always && !c.is_key; });
}

// Sets send such values as text[] and cast them; change by change they are parameters of their type.
bool must_not_be_text(const TargetTable& table) {
  return std::any_of(table.columns.begin(), table.columns.end(),
                     [](const TargetColumn& c) { return c.has_own_cast_from_text; });
}

struct TableState {
  explicit TableState(const TargetTable& t)
      : table(&t), keeps_order(t.key.empty() || t.delivery == Delivery::any_order || must_not_be_text(t)) {}

  const TargetTable* table;
  bool keeps_order;
  Lsn first_commit_lsn;
  KeyIndex index;              // of key bytes: the number in `keys`
  std::vector<KeyState> keys;  // in order of first appearance
  std::vector<OrderedRun> ordered;
};

// The rows of one mask; nearly all rows of a table share one, so the last one is tried first.
std::vector<BatchRow>& rows_of_mask(const TargetTable& table, std::vector<MaskedRows>& groups, wire::Tuple row,
                                    std::vector<std::size_t>& mask) {
  mask.clear();
  for (std::size_t i = 0; i < row.size(); ++i)
    if (row[i].kind != wire::ValueKind::unchanged && !table.columns[i].is_key) mask.push_back(i);
  for (auto group = groups.rbegin(); group != groups.rend(); ++group)
    if (group->columns == mask) return group->rows;
  return groups.emplace_back(MaskedRows{mask, {}}).rows;
}

TableBatch outcome(TableState& state) {
  TableBatch batch;
  batch.table = state.table;
  batch.first_commit_lsn = state.first_commit_lsn;
  batch.ordered = std::move(state.ordered);
  const bool replace_anew = has_plain_identity_always(*state.table);
  std::vector<std::size_t> mask;
  for (const KeyState& key : state.keys) {
    BatchRow row{key.row, key.commit_lsn, false};
    // A column GENERATED ALWAYS AS IDENTITY cannot stand in SET: a replaced row with one goes and comes again.
    const bool anew = key.existed && key.present && key.replaced && replace_anew;
    if (!key.existed && !key.present) batch.vanished.push_back(row);
    if (key.present && (!key.existed || anew)) batch.inserts.push_back(row);
    row.comes_again = anew;
    if (key.existed && (!key.present || anew)) batch.deletes.push_back(row);
    if (key.existed && key.present && !anew) rows_of_mask(*state.table, batch.updates, row.values, mask).push_back(row);
  }
  return batch;
}

}  // namespace

class Coalescer {
 public:
  explicit Coalescer(Batch& batch) : batch_(batch) {}

  void add(const Change& change);
  void close_step(const Change* single);

 private:
  TableState& state_of(const Change& change);
  KeyState* find(TableState& state, wire::Tuple row);
  void create(TableState& state, wire::Tuple row, KeyState key);
  std::string_view key_bytes(const TargetTable& table, wire::Tuple row);
  wire::Tuple merge(wire::Tuple known, wire::Tuple newer);

  void keep_order(TableState& state, const Change& change);
  void insert(TableState& state, wire::Tuple row, Lsn commit_lsn);
  void update(TableState& state, const Change& change);
  void remove(TableState& state, wire::Tuple key_row, Lsn commit_lsn);
  void move(TableState& state, const Change& change);

  Batch& batch_;
  std::unordered_map<std::string_view, std::unique_ptr<TableState>> by_name_;
  std::unordered_map<const TargetTable*, TableState*> by_table_;
  std::vector<TableState*> order_;
  std::string scratch_;
};

Batch Batch::plan(std::span<const Change> window) {
  Batch batch;
  Coalescer coalescer(batch);
  for (const Change& change : window) {
    coalescer.add(change);
    if (batch.irregular_) return batch;
  }
  coalescer.close_step(nullptr);
  return batch;
}

void Coalescer::add(const Change& change) {
  if (change.operation == Operation::truncate || change.operation == Operation::define || change.partial_insert)
    return close_step(&change);
  TableState& state = state_of(change);
  if (state.keeps_order) return keep_order(state, change);
  switch (change.operation) {
    case Operation::insert:
      return insert(state, change.new_row, change.commit_lsn);
    case Operation::update:
      return update(state, change);
    case Operation::remove:
      return remove(state, change.old_row, change.commit_lsn);
    case Operation::truncate:
    case Operation::define:
      return;
  }
}

void Coalescer::close_step(const Change* single) {
  BatchStep step;
  step.single = single;
  for (TableState* state : order_) step.tables.push_back(outcome(*state));
  if (single != nullptr || !step.tables.empty()) batch_.steps_.push_back(std::move(step));
  order_.clear();
  by_table_.clear();
  by_name_.clear();
}

TableState& Coalescer::state_of(const Change& change) {
  const TargetTable& table = *change.table;
  auto known = by_table_.find(&table);
  if (known == by_table_.end()) {
    auto named = by_name_.find(table.quoted);
    if (named != by_name_.end() && !same_shape(*named->second->table, table)) {
      close_step(nullptr);
      named = by_name_.end();
    }
    if (named == by_name_.end()) {
      named = by_name_.emplace(table.quoted, std::make_unique<TableState>(table)).first;
      order_.push_back(named->second.get());
    }
    known = by_table_.emplace(&table, named->second.get()).first;
  }
  TableState& state = *known->second;
  if (!state.first_commit_lsn || change.commit_lsn < state.first_commit_lsn) state.first_commit_lsn = change.commit_lsn;
  return state;
}

void Coalescer::keep_order(TableState& state, const Change& change) {
  const bool groups = change.operation == Operation::insert && state.table->delivery == Delivery::in_order &&
                      !state.table->columns.empty();
  if (!groups) {
    state.ordered.push_back({{}, &change});
    return;
  }
  if (state.ordered.empty() || state.ordered.back().change != nullptr) state.ordered.emplace_back();
  state.ordered.back().inserts.push_back({change.new_row, change.commit_lsn, false});
}

// One column: its bytes. Several: each with its length in front, so that ('a','bc') and ('ab','c') differ.
std::string_view Coalescer::key_bytes(const TargetTable& table, wire::Tuple row) {
  if (table.key.size() == 1) return row[table.key.front()].data;
  scratch_.clear();
  for (std::size_t i : table.key) {
    const std::uint64_t length = row[i].data.size();
    scratch_.append(reinterpret_cast<const char*>(&length), sizeof length);
    scratch_.append(row[i].data);
  }
  return scratch_;
}

KeyState* Coalescer::find(TableState& state, wire::Tuple row) {
  const auto number = state.index.find(key_bytes(*state.table, row));
  return number ? &state.keys[*number] : nullptr;
}

void Coalescer::create(TableState& state, wire::Tuple row, KeyState key) {
  std::string_view bytes = key_bytes(*state.table, row);
  if (state.table->key.size() > 1) bytes = batch_.arena_.copy(bytes);
  state.index.add(bytes);
  state.keys.push_back(key);
}

wire::Tuple Coalescer::merge(wire::Tuple known, wire::Tuple newer) {
  if (!has_unchanged(newer)) return newer;
  auto row = batch_.arena_.array<wire::Value>(newer.size());
  for (std::size_t i = 0; i < newer.size(); ++i)
    row[i] = newer[i].kind == wire::ValueKind::unchanged ? known[i] : newer[i];
  return row;
}

void Coalescer::insert(TableState& state, wire::Tuple row, Lsn commit_lsn) {
  KeyState* key = find(state, row);
  if ((key != nullptr && key->present) || has_unchanged(row)) {
    batch_.irregular_ = true;
  } else if (key != nullptr) {
    *key = {key->existed, true, key->existed, row, commit_lsn};
  } else {
    create(state, row, {false, true, false, row, commit_lsn});
  }
}

void Coalescer::update(TableState& state, const Change& change) {
  // An old row comes also when the key was only TOASTed, not changed.
  if (change.key_changed() && !same_key(*state.table, change.old_row, change.new_row)) return move(state, change);
  KeyState* key = find(state, change.new_row);
  if (key == nullptr) {
    create(state, change.new_row, {true, true, false, change.new_row, change.commit_lsn});
  } else if (!key->present) {
    batch_.irregular_ = true;
  } else {
    key->row = merge(key->row, change.new_row);
    key->commit_lsn = change.commit_lsn;
  }
}

void Coalescer::remove(TableState& state, wire::Tuple key_row, Lsn commit_lsn) {
  KeyState* key = find(state, key_row);
  if (key == nullptr) {
    create(state, key_row, {true, false, false, key_row, commit_lsn});
  } else if (!key->present) {
    batch_.irregular_ = true;
  } else {
    *key = {key->existed, false, false, key_row, commit_lsn};
  }
}

void Coalescer::move(TableState& state, const Change& change) {
  wire::Tuple row = change.new_row;
  if (has_unchanged(row)) {
    const KeyState* old_key = find(state, change.old_row);
    if (old_key != nullptr && old_key->present) row = merge(old_key->row, row);
    if (has_unchanged(row)) return close_step(&change);
  }
  remove(state, change.old_row, change.commit_lsn);
  if (!batch_.irregular_) insert(state, row, change.commit_lsn);
}

void sort_by_key(const TargetTable& table, std::vector<BatchRow>& rows) {
  if (table.key.empty()) return;
  const std::size_t first = table.key.front();
  if (table.key.size() == 1 && table.columns[first].type_is_integer) {
    std::vector<std::pair<std::int64_t, BatchRow>> numbered;
    numbered.reserve(rows.size());
    for (const BatchRow& row : rows) {
      const std::string_view text = row.values[first].data;
      std::int64_t number = 0;
      std::from_chars(text.data(), text.data() + text.size(), number);
      numbered.emplace_back(number, row);
    }
    const auto less = [](const auto& a, const auto& b) { return a.first < b.first; };
    // New rows mostly come in the order of their keys.
    if (std::is_sorted(numbered.begin(), numbered.end(), less)) return;
    std::sort(numbered.begin(), numbered.end(), less);
    std::transform(numbered.begin(), numbered.end(), rows.begin(), [](const auto& n) { return n.second; });
    return;
  }
  std::sort(rows.begin(), rows.end(), [&](const BatchRow& a, const BatchRow& b) {
    for (std::size_t i : table.key) {
      const std::string_view left = a.values[i].data, right = b.values[i].data;
      if (left == right) continue;
      return table.columns[i].type_is_integer ? integer_text_less(left, right) : left < right;
    }
    return false;
  });
}

}  // namespace pgbaton::apply
