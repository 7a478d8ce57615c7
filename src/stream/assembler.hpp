// Messages in, chunks out: decodes frames, keeps the relation cache, filters by boundary and by progress.
//
// Worked example. Table t has boundary 0/500, the applied position is 0/400. The slot sends
//   B(commit 0/390) …            dropped whole: commit LSN < applied position, so it is on the target already
//   B(commit 0/480) I(t) C       the row is in t's snapshot: not handed on, only the border (end 0/4A0) is
//   B(commit 0/520) I(t) U(u) C  both rows are handed on, though the transaction may have begun at 0/300
// What is compared is the commit LSN alone; begin positions and the rows' own LSNs say nothing (G1).
#pragma once
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/source/reader.hpp>
#include <pgbaton/wire/message.hpp>

#include <optional>

#include "chunk.hpp"
#include "relation_map.hpp"

namespace pgbaton::stream {

class Assembler {
 public:
  // until_end_lsn: hand on exactly the transactions with end LSN <= it; 0: all.
  Assembler(RelationMap& relations, Lsn applied_lsn, Lsn until_end_lsn)
      : relations_(relations), applied_lsn_(applied_lsn), until_end_lsn_(until_end_lsn) {}

  void on_frame(const source::Frame& frame);
  // Ignored inside a transaction: it lies before that transaction's commit record and says nothing new.
  void on_position(Lsn lsn);

  bool in_transaction() const { return in_transaction_; }
  // until_end_lsn is reached: nothing more will be handed on.
  bool finished() const { return finished_; }
  Chunk& chunk() { return chunk_; }
  Chunk take();
  Lsn received_lsn() const { return received_lsn_; }

 private:
  void on(const wire::Begin& message);
  void on(const wire::Commit& message);
  void on(const wire::Origin&) {}
  void on(const wire::Relation& message) { relations_.on_relation(message); }
  void on(const wire::Type& message) { relations_.on_type(message); }
  void on(const wire::Insert& message);
  void on(const wire::Update& message);
  void on(const wire::Delete& message);
  void on(const wire::Truncate& message);
  void on(const wire::LogicalMessage&) {}  // ours or the application's: the position advances with its transaction
  void on(const wire::StreamAbort&) {}     // a server of major 18 may send it on a protocol 1 session (SEMANTICS 12)

  const apply::TargetTable* table_for(wire::Oid oid);  // null: not wanted
  // The row as `table` has its columns, without the source's own guard.
  wire::Tuple row_for(const apply::TargetTable& table, wire::Tuple row);
  wire::Tuple fill_unchanged(const apply::TargetTable& table, wire::Tuple new_row, wire::Tuple old_row,
                             wire::OldRow old_kind);
  void finish_at(Lsn position);

  RelationMap& relations_;
  const Lsn applied_lsn_, until_end_lsn_;
  Chunk chunk_;
  Lsn received_lsn_;
  Lsn handed_end_lsn_;  // of the last transaction
  Lsn commit_lsn_;      // of the transaction being received
  bool in_transaction_ = false, skip_ = false, finished_ = false;
};

}  // namespace pgbaton::stream
