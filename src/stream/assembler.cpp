#include "assembler.hpp"

#include <pgbaton/base/error.hpp>

#include <algorithm>

namespace pgbaton::stream {
namespace {

Error protocol_error(const std::string& what) {
  return Error(ErrorKind::failed, what)
      .side(Side::source)
      .action(Action::bug)
      .hint("This is a defect of pgbaton or of the source; please report it. Nothing of the transaction was applied.");
}

}  // namespace

void Assembler::on_frame(const source::Frame& frame) {
  if (finished_) return;
  // One copy of the message into the chunk's memory; everything decoded from it points there.
  const auto body = chunk_.arena.copy(frame.body);
  std::visit([this](const auto& message) { on(message); }, wire::decode(body, chunk_.arena));
}

void Assembler::on_position(Lsn lsn) {
  if (in_transaction_ || finished_) return;
  received_lsn_ = std::max(received_lsn_, lsn);
  if (until_end_lsn_ && lsn >= until_end_lsn_) return finish_at(until_end_lsn_);
  if (lsn > applied_lsn_) chunk_.position = std::max(chunk_.position, lsn);
}

Chunk Assembler::take() {
  Chunk full = std::move(chunk_);
  chunk_ = Chunk{};
  return full;
}

void Assembler::finish_at(Lsn position) {
  chunk_.position = std::max(chunk_.position, position);
  finished_ = true;
}

void Assembler::on(const wire::Begin& message) {
  if (in_transaction_)
    throw protocol_error("the source began a transaction inside a transaction").lsn(message.commit_lsn);
  if (until_end_lsn_ && message.commit_lsn >= until_end_lsn_) return finish_at(until_end_lsn_);
  in_transaction_ = true;
  commit_lsn_ = message.commit_lsn;
  // Below handed_end_lsn_: a reader that took another one's place hands it out once more.
  skip_ = commit_lsn_ < std::max(applied_lsn_, handed_end_lsn_);
}

void Assembler::on(const wire::Commit& message) {
  if (!in_transaction_ || message.commit_lsn != commit_lsn_) {
    throw protocol_error("the source's Commit does not match its Begin").lsn(message.commit_lsn);
  }
  in_transaction_ = false;
  // The position asked for lies inside this commit record: the transaction ends beyond it and must not show.
  if (until_end_lsn_ && message.end_lsn > until_end_lsn_) {
    chunk_.borders.push_back({chunk_.changes.size(), message.commit_lsn, message.end_lsn, message.commit_time, true});
    return finish_at(message.commit_lsn);
  }
  received_lsn_ = std::max(received_lsn_, message.end_lsn);
  handed_end_lsn_ = std::max(handed_end_lsn_, message.end_lsn);
  if (skip_) return;
  chunk_.borders.push_back({chunk_.changes.size(), message.commit_lsn, message.end_lsn, message.commit_time, false});
}

const apply::TargetTable* Assembler::table_for(wire::Oid oid) {
  if (!in_transaction_) throw protocol_error("the source sent a row outside a transaction");
  if (skip_ || !relations_.wants(oid, commit_lsn_)) return nullptr;
  auto table = relations_.resolve(oid, commit_lsn_);
  if (const auto definition = relations_.take_definition(); !definition.empty()) {
    apply::Change change{apply::Operation::define, nullptr, commit_lsn_, {}, {}, {}, false};
    change.definition = chunk_.arena.copy(definition);
    chunk_.changes.push_back(change);
  }
  if (chunk_.tables.empty() || chunk_.tables.back() != table) {
    if (std::find(chunk_.tables.begin(), chunk_.tables.end(), table) == chunk_.tables.end()) {
      chunk_.tables.push_back(table);
    }
  }
  return table.get();
}

wire::Tuple Assembler::row_for(const apply::TargetTable& table, wire::Tuple row) {
  if (row.size() == table.columns.size()) return row;
  const auto guard_at = relations_.guard_at(table.source_oid);
  if (guard_at && row.size() == table.columns.size() + 1) {
    const auto kept = chunk_.arena.array<wire::Value>(table.columns.size());
    const auto rest = std::copy_n(row.begin(), *guard_at, kept.begin());
    std::copy(row.begin() + static_cast<std::ptrdiff_t>(*guard_at) + 1, row.end(), rest);
    return kept;
  }
  throw protocol_error("a row has " + std::to_string(row.size()) + " columns, its relation " +
                       std::to_string(table.columns.size()))
      .table(table.quoted)
      .lsn(commit_lsn_);
}

void Assembler::on(const wire::Insert& message) {
  const auto* table = table_for(message.relation_oid);
  if (table == nullptr) return;
  const auto new_row = row_for(*table, message.new_row);
  apply::Change change{apply::Operation::insert, table, commit_lsn_, new_row, {}, {}, false};
  for (std::size_t i = 0; i < new_row.size(); ++i) {
    if (new_row[i].kind != wire::ValueKind::unchanged) continue;
    if (table->key.empty() || table->columns[i].is_key)
      throw protocol_error("an inserted row leaves out a value").table(table->quoted).lsn(commit_lsn_);
    change.partial_insert = true;
  }
  chunk_.changes.push_back(change);
}

// What the new row leaves out and the old one knows: every column under REPLICA IDENTITY FULL, key columns under a key.
// A key column that stays unknown would make the row unfindable, so it is an error; other columns stay `unchanged` and
// are never written.
wire::Tuple Assembler::fill_unchanged(const apply::TargetTable& table, wire::Tuple new_row, wire::Tuple old_row,
                                      wire::OldRow old_kind) {
  const auto unchanged = [](const wire::Value& value) { return value.kind == wire::ValueKind::unchanged; };
  if (std::none_of(new_row.begin(), new_row.end(), unchanged)) return new_row;
  auto filled = chunk_.arena.array<wire::Value>(new_row.size());
  for (std::size_t i = 0; i < new_row.size(); ++i) {
    filled[i] = new_row[i];
    if (!unchanged(new_row[i])) continue;
    const bool known = old_kind == wire::OldRow::full || (old_kind == wire::OldRow::key && table.columns[i].is_key);
    if (known && !unchanged(old_row[i])) filled[i] = old_row[i];
    if (table.columns[i].is_key && unchanged(filled[i])) {
      throw protocol_error("an update leaves out a key column").table(table.quoted).lsn(commit_lsn_);
    }
  }
  return filled;
}

void Assembler::on(const wire::Update& message) {
  const auto* table = table_for(message.relation_oid);
  if (table == nullptr) return;
  const auto new_row = row_for(*table, message.new_row);
  const auto old_row = message.old_kind == wire::OldRow::none ? wire::Tuple{} : row_for(*table, message.old_row);
  apply::Change change{apply::Operation::update, table, commit_lsn_, {}, {}, {}, false};
  change.new_row = fill_unchanged(*table, new_row, old_row, message.old_kind);
  if (table->key.empty()) {
    if (message.old_kind != wire::OldRow::full) {
      throw Error(ErrorKind::rejected,
                  "an update of a table without key carries no old row: its replica identity was lost")
          .side(Side::source)
          .table(table->quoted)
          .lsn(commit_lsn_)
          .hint("Give the table a primary key or REPLICA IDENTITY FULL on the source, then `pgbaton clone --restart`.");
    }
    change.old_row = old_row;
  } else if (message.old_kind != wire::OldRow::none) {
    // Spelling decides, not equality: 'A' → 'a' of a citext key must still rewrite the row.
    const bool changed = std::any_of(table->key.begin(), table->key.end(), [&](std::size_t i) {
      return old_row[i].kind != change.new_row[i].kind || old_row[i].data != change.new_row[i].data;
    });
    if (changed) change.old_row = old_row;
  }
  chunk_.changes.push_back(change);
}

void Assembler::on(const wire::Delete& message) {
  const auto* table = table_for(message.relation_oid);
  if (table == nullptr) return;
  const auto old_row = row_for(*table, message.old_row);
  if (table->key.empty() && message.old_kind != wire::OldRow::full) {
    throw Error(ErrorKind::rejected,
                "a delete in a table without key carries no full old row: its replica identity was lost")
        .side(Side::source)
        .table(table->quoted)
        .lsn(commit_lsn_)
        .hint("Give the table a primary key or REPLICA IDENTITY FULL on the source, then `pgbaton clone --restart`.");
  }
  chunk_.changes.push_back({apply::Operation::remove, table, commit_lsn_, {}, old_row, {}, false});
}

void Assembler::on(const wire::Truncate& message) {
  auto tables = chunk_.arena.array<const apply::TargetTable*>(message.relation_oids.size());
  std::size_t wanted = 0;
  for (const auto oid : message.relation_oids) {
    if (const auto* table = table_for(oid)) tables[wanted++] = table;
  }
  if (wanted == 0) return;
  apply::Change change{apply::Operation::truncate, nullptr, commit_lsn_, {}, {}, {}, message.restart_identity};
  change.truncated = tables.first(wanted);
  chunk_.changes.push_back(change);
}

}  // namespace pgbaton::stream
