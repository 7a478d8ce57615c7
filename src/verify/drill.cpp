#include "drill.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace pgbaton::verify {
namespace {

constexpr int kFetch = 2000;

// One row, or several equal ones.
struct Seen {
  std::int64_t key_hash = 0, count = 0;
  std::string column_hashes;  // "{1,2,…}", one for each column: equal means the same row
  std::vector<std::optional<std::string>> key;
};

std::int64_t to_number(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::vector<std::size_t> key_of(const TablePlan& plan) {
  if (!plan.key.empty()) return plan.key;
  std::vector<std::size_t> all(plan.sides[0].columns.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

std::string drill_query(const TablePlan& plan, Where where, const std::string& which) {
  const auto& side = plan.side(where);
  auto inner = fmt::format("ARRAY[{}]::int8[]::text AS ch", fmt::join(side.column_hashes, ", "));
  std::string outer, groups;
  std::size_t number = 0;
  for (const auto i : key_of(plan)) {
    const auto alias = fmt::format("k{}", number++);
    inner += fmt::format(", {} AS {}", column_text(*side.columns[i]), alias);
    outer += ", " + alias;
    groups += ", " + alias;
  }
  return fmt::format("SELECT kh, count(*), ch{} FROM ({}) x WHERE {}{} GROUP BY kh, ch{} ORDER BY kh", outer,
                     plan.rows(where, inner), which, plan.sample.empty() ? "" : " AND " + plan.sample, groups);
}

// A cursor on one side, row by row.
class Rows {
 public:
  Rows(SideSession& session, const TablePlan& plan, const std::string& which) : session_(session) {
    session.exec("DECLARE pgbaton_rows NO SCROLL CURSOR FOR " + drill_query(plan, session.where(), which));
    fetch();
  }
  // All rows of the next key hash; empty at the end.
  std::vector<Seen> next() {
    std::vector<Seen> group;
    while (current_ && (group.empty() || current_->key_hash == group.front().key_hash)) {
      group.push_back(std::move(*current_));
      advance();
    }
    return group;
  }
  std::optional<std::int64_t> key_hash() const { return current_ ? std::optional(current_->key_hash) : std::nullopt; }

 private:
  void fetch() {
    block_.emplace(session_.exec(fmt::format("FETCH {} FROM pgbaton_rows", kFetch)));
    row_ = 0;
    load();
  }
  void advance() {
    ++row_;
    if (row_ == block_->rows() && row_ > 0)
      fetch();
    else
      load();
  }
  void load() {
    current_.reset();
    if (row_ >= block_->rows()) return;
    Seen seen{to_number(block_->value(row_, 0)), to_number(block_->value(row_, 1)), block_->text(row_, 2), {}};
    for (int i = 3; i < block_->columns(); ++i)
      seen.key.push_back(block_->is_null(row_, i) ? std::nullopt : std::optional(block_->text(row_, i)));
    current_ = std::move(seen);
  }

  SideSession& session_;
  std::optional<pg::Result> block_;
  int row_ = 0;
  std::optional<Seen> current_;
};

std::vector<std::string_view> split_hashes(std::string_view array) {
  std::vector<std::string_view> parts;
  array = array.substr(1, array.size() - 2);
  while (!array.empty()) {
    const auto comma = std::min(array.find(','), array.size());
    parts.push_back(array.substr(0, comma));
    array.remove_prefix(std::min(comma + 1, array.size()));
  }
  return parts;
}

class Merge {
 public:
  Merge(const TablePlan& plan, const std::function<void(Difference)>& found) : plan_(plan), found_(found) {}

  // Rows of one key hash.
  void compare(std::vector<Seen> here, std::vector<Seen> there) {
    for (auto& a : here)
      for (auto& b : there)
        if (a.key == b.key && a.column_hashes == b.column_hashes) take(a, b);
    if (!plan_.key.empty())
      for (auto& a : here)
        for (auto& b : there)
          if (a.key == b.key && a.count > 0 && b.count > 0) {
            report(a, Kind::different, std::min(a.count, b.count), &b);
            take(a, b);
          }
    for (const auto& a : here)
      if (a.count > 0) report(a, Kind::missing, a.count, nullptr);
    for (const auto& b : there)
      if (b.count > 0) report(b, Kind::extra, b.count, nullptr);
  }

 private:
  static void take(Seen& a, Seen& b) {
    const auto both = std::min(a.count, b.count);
    a.count -= both;
    b.count -= both;
  }

  void report(const Seen& row, Kind kind, std::int64_t count, const Seen* other) {
    Difference difference;
    difference.table = plan_.name;
    difference.kind = kind;
    difference.keyless = plan_.key.empty();
    difference.key = row.key;
    difference.count = count;
    difference.key_hash = row.key_hash;
    const auto& columns = plan_.sides[0].columns;
    for (const auto i : key_of(plan_)) difference.key_columns.push_back(columns[i]->name);
    if (other != nullptr) {
      const auto a = split_hashes(row.column_hashes), b = split_hashes(other->column_hashes);
      for (std::size_t i = 0; i < columns.size(); ++i)
        if (a[i] != b[i]) difference.columns.push_back(columns[i]->name);
    }
    found_(std::move(difference));
  }

  const TablePlan& plan_;
  const std::function<void(Difference)>& found_;
};

void merge(const TablePlan& plan, SideSession& source, SideSession& target, const std::string& which,
           const std::function<void(Difference)>& found) {
  Rows here(source, plan, which), there(target, plan, which);
  Merge merge(plan, found);
  while (here.key_hash() || there.key_hash()) {
    const bool from_here = here.key_hash() && (!there.key_hash() || *here.key_hash() <= *there.key_hash());
    const bool from_there = there.key_hash() && (!here.key_hash() || *there.key_hash() <= *here.key_hash());
    auto left = from_here ? here.next() : std::vector<Seen>{};
    auto right = from_there ? there.next() : std::vector<Seen>{};
    merge.compare(std::move(left), std::move(right));
  }
}

std::string number_list(const std::vector<std::int64_t>& numbers) {
  return fmt::format("'{{{}}}'::int8[]", fmt::join(numbers, ","));
}

}  // namespace

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::missing:
      return "missing";
    case Kind::extra:
      return "extra";
    case Kind::different:
      return "different";
  }
  return "";
}

std::string in_buckets(const TablePlan& plan, const std::vector<std::int64_t>& buckets) {
  // All of them: a test per row would only cost time.
  if (static_cast<std::int64_t>(buckets.size()) > plan.bucket_mask) return "true";
  return fmt::format("(kh & {}) = ANY ({})", plan.bucket_mask, number_list(buckets));
}

std::string with_key_hashes(const std::vector<std::int64_t>& key_hashes) {
  return fmt::format("kh = ANY ({})", number_list(key_hashes));
}

bool find_differences(const TablePlan& plan, SideSession& source, SideSession& target, const std::string& which,
                      const std::function<void(Difference)>& found) {
  const Visit here(source, plan), there(target, plan);
  if (!here.is_here() || !there.is_here()) return false;
  merge(plan, source, target, which, found);
  return true;
}

}  // namespace pgbaton::verify
