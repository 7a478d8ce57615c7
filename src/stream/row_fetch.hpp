// Rows of the source that a change does not bring whole and the target does not have, read under a snapshot whose
// position is known exactly: that of a temporary slot, settled like every other (DESIGN 3.4). The snapshot is kept for
// the rows of one target transaction as far as it lies above them, and let go with it, because it holds back vacuum on
// the source.
#pragma once
#include <pgbaton/apply/row_source.hpp>
#include <pgbaton/pg/endpoint.hpp>
#include <pgbaton/source/slot.hpp>
#include <pgbaton/state/store.hpp>

#include <optional>
#include <string>

namespace pgbaton::stream {

class RowFetch : public apply::RowSource {
 public:
  RowFetch(pg::Endpoint source, const state::Replica& replica) : source_(std::move(source)), replica_(replica) {}
  apply::FetchedRow fetch(const apply::Change& change, wire::Tuple key_row) override;
  void release() noexcept override;

 private:
  void take_snapshot_above(Lsn commit_lsn);
  std::string row_filter(std::uint32_t table);

  const pg::Endpoint source_;
  const state::Replica& replica_;
  std::optional<source::SlotSnapshot> snapshot_;
  std::optional<pg::Connection> reader_;  // in the snapshot
};

}  // namespace pgbaton::stream
