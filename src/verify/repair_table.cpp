#include "repair_table.hpp"

#include <fmt/format.h>
#include <pgbaton/pg/sqlstate.hpp>

#include <algorithm>
#include <cstdlib>

#include "drill.hpp"

namespace pgbaton::verify {
namespace {

using ByKey = std::map<RowTexts, std::vector<RowTexts>>;

RowTexts row_of(const pg::Result& rows, int row) {
  RowTexts texts;
  for (int c = 0; c < rows.columns(); ++c)
    texts.push_back(rows.is_null(row, c) ? std::nullopt : std::optional(rows.text(row, c)));
  return texts;
}

RowTexts key_of(const TablePlan& plan, const RowTexts& row) {
  RowTexts key;
  for (const auto i : plan.key) key.push_back(row[i]);
  return key;
}

ByKey read_rows(SideSession& session, const TablePlan& plan, const std::vector<RowTexts>& keys) {
  ByKey result;
  const auto rows = session.exec(select_rows(plan, session.where(), keys));
  for (int i = 0; i < rows.rows(); ++i) {
    auto row = row_of(rows, i);
    result[key_of(plan, row)].push_back(std::move(row));
  }
  return result;
}

std::vector<RowTexts> keys_of(const std::vector<Difference>& differences) {
  std::vector<RowTexts> keys;
  for (const auto& difference : differences) keys.push_back(difference.key);
  return keys;
}

void require(long long touched, std::size_t due) {
  if (touched == static_cast<long long>(due)) return;
  throw Error(ErrorKind::rejected, fmt::format("a repair of {} rows touched {}", due, touched))
      .side(Side::target)
      .hint("Look for a trigger, rule or policy on the table that swallows writes, and for what else writes to it.");
}

Error moved() {
  return Error(ErrorKind::failed, "the table was rewritten or dropped while it was to be repaired")
      .action(Action::retry)
      .hint("Run the same command again.");
}

bool is_conflict(const Error& error) {
  return error.side() == Side::target && (error.sqlstate() == "23505" || error.sqlstate() == "23P01");
}

std::string_view hint_for(const Error& error) {
  if (is_conflict(error))
    return "A row of another key stands in its way: remove it on the target, or copy the table again with `pgbaton "
           "resync` and its name.";
  if (error.sqlstate() == "23503")
    return "A foreign key of the target refuses it: verify and repair the other table, too, or drop the constraint "
           "for now.";
  return "The target has a rule of its own: see which, and mend it.";
}

}  // namespace

RepairFailure explain_failure(const RepairBatch& batch, const Error& error) {
  auto told = error;
  if (told.table().empty()) told.table(batch.plan->name.quoted());
  const bool may_help = is_conflict(error) && !batch.at_once && !batch.plan->target_has_more_columns;
  if (error.kind() != ErrorKind::failed || error.side() != Side::target || !pg::is_data_error(error.sqlstate()))
    return {batch.plan, std::move(told), false};
  return {batch.plan,
          Error(ErrorKind::rejected, "the target does not accept a row of the source: " + error.message())
              .side(Side::target)
              .sqlstate(error.sqlstate())
              .table(told.table())
              .hint(hint_for(error)),
          may_help};
}

RepairTable::RepairTable(const TablePlan& plan, Lsn cut_lsn, SideSession& source, SideSession& target,
                         pg::Connection& writer)
    : plan_(plan), cut_lsn_(cut_lsn), source_(source), target_(target), writer_(writer) {}

std::int64_t RepairTable::mend(const RepairBatch& batch) {
  if (plan_.key.empty()) return mend_keyless(batch.differences);
  return batch.at_once ? mend_at_once(keys_of(batch.differences)) : mend_keyed(keys_of(batch.differences));
}

const std::vector<ForeignAction>& RepairTable::actions() {
  if (!actions_) actions_ = load_foreign_actions(writer_, plan_);
  return *actions_;
}

std::int64_t RepairTable::mend_keyed(const Keys& keys) {
  auto work = plan_work(keys);
  leave_out_parents(work);
  return write_or_replace(work);
}

RepairTable::Work RepairTable::plan_work(const Keys& keys) {
  const Visit source_visit(source_, plan_), target_visit(target_, plan_);
  if (!source_visit.is_here() || !target_visit.is_here()) throw moved();
  const auto here = read_rows(source_, plan_, keys), there = read_rows(target_, plan_, keys);
  // Also keys that one side spells otherwise (citext): both spellings go and come together.
  std::set<RowTexts> all(keys.begin(), keys.end());
  for (const auto* rows : {&here, &there})
    for (const auto& [key, _] : *rows) all.insert(key);
  Work work;
  for (const auto& key : all) {
    const auto wanted = here.find(key), found = there.find(key);
    const bool is_wanted = wanted != here.end(), is_found = found != there.end();
    if (is_wanted == is_found && (!is_wanted || wanted->second == found->second)) continue;
    work.keys.insert(key);
    if (is_wanted && is_found && found->second.size() == 1) {
      plan_row(work, key, wanted->second.front(), found->second.front());
      continue;
    }
    if (is_found) {
      work.remove.push_back(key);
      work.remove_rows += found->second.size();
    }
    if (is_wanted) work.insert.push_back(wanted->second.front());
  }
  return work;
}

void RepairTable::plan_row(Work& work, const RowTexts& key, const RowTexts& wanted, const RowTexts& found) const {
  const auto& columns = plan_.side(Where::target).columns;
  std::vector<std::size_t> differing;
  bool settable = true;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == found[i]) continue;
    differing.push_back(i);
    settable = settable && columns[i]->identity != 'a';
  }
  if (settable) {
    work.update[differing].push_back(wanted);
    return;
  }
  if (plan_.target_has_more_columns) throw loses_columns(key);
  work.remove.push_back(key);
  ++work.remove_rows;
  work.insert.push_back(wanted);
}

Error RepairTable::loses_columns(const RowTexts& key) const {
  return Error(ErrorKind::rejected,
               "a row would have to be deleted and inserted, and what its columns hold that only the target has would "
               "be lost")
      .side(Side::target)
      .table(plan_.name.quoted())
      .key(key_text(plan_, key))
      .hint("Mend the row by hand; or drop these columns, run the same command again, and add them again.");
}

// Rows whose repair would change rows of another table stay as they are; the others are repaired.
void RepairTable::leave_out_parents(Work& work) {
  std::set<RowTexts> parents;
  const auto leave_out = [&](const ForeignAction& action, const Keys& keys) {
    const auto found = keys_with_children(writer_, plan_, action, keys);
    if (!found.empty()) refused_.push_back(refuse_action(plan_, action, found.front()));
    parents.insert(found.begin(), found.end());
  };
  const auto& columns = plan_.side(Where::target).columns;
  for (const auto& action : actions()) {
    if (action.on_delete && !work.remove.empty()) leave_out(action, work.remove);
    if (action.on_delete) continue;
    Keys changed;
    for (const auto& [differing, rows] : work.update)
      if (std::ranges::any_of(differing, [&](std::size_t i) {
            return std::ranges::find(action.columns, columns[i]->name) != action.columns.end();
          }))
        for (const auto& row : rows) changed.push_back(key_of(plan_, row));
    if (!changed.empty()) leave_out(action, changed);
  }
  if (parents.empty()) return;
  const auto is_parent = [&](const RowTexts& row) { return parents.contains(key_of(plan_, row)); };
  const auto left_out = std::erase_if(work.remove, [&](const RowTexts& key) { return parents.contains(key); });
  work.remove_rows -= std::min(work.remove_rows, left_out);
  std::erase_if(work.insert, is_parent);
  for (auto& [_, rows] : work.update) std::erase_if(rows, is_parent);
  std::erase_if(work.update, [](const auto& group) { return group.second.empty(); });
  std::erase_if(work.keys, [&](const RowTexts& key) { return parents.contains(key); });
}

// All that goes first, so that unique values may change places.
void RepairTable::write(const Work& work) {
  if (!work.remove.empty()) require(writer_.exec(delete_keys(plan_, work.remove)).affected(), work.remove_rows);
  for (const auto& [columns, rows] : work.update)
    require(writer_.exec(update_rows(plan_, columns, rows, cut_lsn_)).affected(), rows.size());
  if (!work.insert.empty())
    require(writer_.exec(insert_rows(plan_, work.insert, cut_lsn_)).affected(), work.insert.size());
}

std::int64_t RepairTable::write_or_replace(const Work& work) {
  if (work.update.empty()) {
    write(work);
    return static_cast<std::int64_t>(work.keys.size());
  }
  writer_.exec("SAVEPOINT pgbaton_rows");
  try {
    write(work);
  } catch (const Error& error) {
    if (!is_conflict(error) || plan_.target_has_more_columns) throw;
    writer_.exec("ROLLBACK TO SAVEPOINT pgbaton_rows");
    Work replaced = work;
    for (const auto& [_, rows] : std::exchange(replaced.update, {}))
      for (const auto& row : rows) {
        replaced.remove.push_back(key_of(plan_, row));
        ++replaced.remove_rows;
        replaced.insert.push_back(row);
      }
    refuse_deletes(replaced.remove);
    write(replaced);
  }
  writer_.exec("RELEASE SAVEPOINT pgbaton_rows");
  return static_cast<std::int64_t>(work.keys.size());
}

void RepairTable::refuse_deletes(const Keys& keys) {
  for (const auto& action : actions()) {
    if (!action.on_delete) continue;
    const auto parents = keys_with_children(writer_, plan_, action, keys);
    if (!parents.empty()) throw refuse_action(plan_, action, parents.front());
  }
}

// Part by part, so that no more than kRepairBatch rows are in memory.
std::int64_t RepairTable::mend_at_once(const Keys& keys) {
  const Visit source_visit(source_, plan_), target_visit(target_, plan_);
  if (!source_visit.is_here() || !target_visit.is_here()) throw moved();
  const auto by_parts = [&](const auto& work) {
    for (std::size_t at = 0; at < keys.size(); at += kRepairBatch) {
      const auto end = std::min(at + kRepairBatch, keys.size());
      work(Keys(keys.begin() + static_cast<std::ptrdiff_t>(at), keys.begin() + static_cast<std::ptrdiff_t>(end)));
    }
  };
  by_parts([&](const Keys& part) {
    refuse_deletes(part);
    const auto due = std::strtoull(writer_.exec(count_rows(plan_, part)).text(0, 0).c_str(), nullptr, 10);
    require(writer_.exec(delete_keys(plan_, part)).affected(), due);
  });
  std::set<RowTexts> written;  // a key that is spelled in two ways is found by both
  by_parts([&](const Keys& part) {
    std::vector<RowTexts> insert;
    for (auto& [key, rows] : read_rows(source_, plan_, part))
      if (written.insert(key).second) insert.push_back(std::move(rows.front()));
    if (!insert.empty()) require(writer_.exec(insert_rows(plan_, insert, cut_lsn_)).affected(), insert.size());
  });
  return static_cast<std::int64_t>(keys.size());
}

std::int64_t RepairTable::mend_keyless(const std::vector<Difference>& differences) {
  std::vector<std::int64_t> hashes;
  for (const auto& difference : differences) hashes.push_back(difference.key_hash);
  std::vector<RowTexts> insert;
  std::map<WholeRow, std::int64_t> remove;
  std::int64_t removed = 0;
  const bool same = find_differences(plan_, source_, target_, with_key_hashes(hashes), [&](const Difference& found) {
    if (found.kind == Kind::missing) {
      insert.insert(insert.end(), static_cast<std::size_t>(found.count), found.key);
    } else {
      remove[{found.key_hash, found.key}] += found.count;
      removed += found.count;
    }
  });
  if (!same) throw moved();
  if (!remove.empty())
    require(writer_.exec(delete_copies(plan_, remove)).affected(), static_cast<std::size_t>(removed));
  if (!insert.empty()) require(writer_.exec(insert_rows(plan_, insert, cut_lsn_)).affected(), insert.size());
  return removed + static_cast<std::int64_t>(insert.size());
}

}  // namespace pgbaton::verify
