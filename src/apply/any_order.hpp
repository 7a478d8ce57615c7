// Changes whose order and number are not known (resync, repair, replay): the guard alone decides, and deletes leave
// tombstones, because a deleted row has no guard of its own.
//
//   insert, full update   skipped below the key's tombstone or the table's floor, else inserted or, if not guarded
//   newer,
//                         overwritten. An insert at its tombstone's own LSN wins (delete and insert in one
//                         transaction).
//   partial update        the row must be there; if not, a tombstone or floor at or above it must say why
//   delete                tombstone first (the largest LSN stays), then the row unless guarded newer; an absent row is
//   fine key change            delete(old) and insert(new) under one LSN; unchanged values are read from the old row
//
// Example: create 20, update 40, delete 60 of one key arrive as 60, 20, 40: tombstone 60; 20 and 40 are below it.
#pragma once
#include "row_session.hpp"

namespace pgbaton::apply {

class AnyOrderWriter {
 public:
  explicit AnyOrderWriter(RowSession& session) : session_(session) {}
  void write(const Change& change);

 private:
  void upsert(const Change& change, wire::Tuple row);
  void update_partly(const Change& change);
  void remove(const Change& change);
  void move(const Change& change);
  bool complete(const Change& change, std::span<wire::Value> row, std::span<std::string> kept);

  RowSession& session_;
};

}  // namespace pgbaton::apply
