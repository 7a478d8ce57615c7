// Every step of a replica's life, and everything that can die in it: what the tool said, what status says, that the
// next start goes on, and that in the end both sides are equal and nothing is left over.
#include "faults.hpp"

namespace pgbaton::testing {
namespace {

// The snapshot was lost with the source's sessions, and the rest of the tables got another.
constexpr const char* kNewBoundary = "new boundary [0-9A-F]+/[0-9A-F]+ from temporary slot";

class FaultTableTest : public FaultTable {};

TEST_F(FaultTableTest, BeforeTheCopy) {
  play(Command::clone, {
                           {"replica_recorded", Harm::kill, 137, "creating"},
                           {"publication_created", Harm::kill, 137, "creating"},
                           {"slot_created", Harm::kill, 137, "creating"},
                           {"snapshot_settled", Harm::kill, 137, "creating"},
                           {"consistent_point_stored", Harm::kill, 137, "creating"},
                           {"slot_recorded", Harm::kill, 137, "copying"},
                           {"schema_before_commit", Harm::kill, 137, "copying"},
                           {"schema_restored", Harm::kill, 137, "copying"},
                           {"replica_recorded", Harm::error, 1, "none"},
                           {"publication_created", Harm::error, 1, "none"},
                           {"slot_created", Harm::stop, 1, "none"},
                           {"schema_before_commit", Harm::stop, 1, "none"},
                           {"replica_recorded", Harm::source_down, 1, "none"},
                           {"publication_created", Harm::target_down, 1, "none"},
                           {"slot_created", Harm::source_backend, 1, "none", "slot"},
                           {"snapshot_settled", Harm::source_backend, 0, "ready", "holder"},
                           {"slot_recorded", Harm::source_down, 0, "ready", "", kNewBoundary},
                           {"slot_recorded", Harm::target_down, 1, "none"},
                           {"schema_before_commit", Harm::target_backend, 1, "copying", "schema"},
                           {"schema_before_commit", Harm::cut_target, 1, "copying"},
                           {"slot_created", Harm::cut_source, 1, "none"},
                       });
}

TEST_F(FaultTableTest, Copy) {
  play(Command::clone, {
                           {"copy_table_half", Harm::kill, 137, "copying"},
                           {"copy_before_commit", Harm::kill, 137, "copying"},
                           {"copy_after_commit", Harm::kill, 137, "copying"},
                           {"table_copied@3", Harm::kill, 137, "copying"},
                           {"copy_table_half", Harm::error, 0, "ready"},
                           {"copy_table_half", Harm::stop, 1, "copying"},
                           {"copy_table_half", Harm::source_backend, 0, "ready", "copy-%"},
                           {"copy_table_half", Harm::target_backend, 0, "ready", "copy-%"},
                           {"copy_table_half", Harm::source_backend, 0, "ready", "holder"},
                           {"copy_table_half", Harm::source_down, 0, "ready", "", kNewBoundary},
                           {"copy_before_commit", Harm::target_down, 0, "ready"},
                           {"copy_after_commit", Harm::target_down, 0, "ready"},
                           {"copy_table_half", Harm::cut_source, 0, "ready", "", kNewBoundary},
                           {"copy_before_commit", Harm::cut_target, 0, "ready"},
                       });
}

TEST_F(FaultTableTest, Indexes) {
  play(Command::clone, {
                           {"indexes_built", Harm::kill, 137, "copying|indexing"},
                           {"table_indexed", Harm::kill, 137, "copying|indexing"},
                           {"table_guarded", Harm::kill, 137, "copying|indexing"},
                           {"indexing_recorded", Harm::kill, 137, "indexing"},
                           {"leaf_guarded", Harm::kill, 137, "indexing"},
                           {"rest_restored", Harm::kill, 137, "indexing"},
                           {"before_streaming", Harm::kill, 137, "indexing"},
                           {"streaming_recorded", Harm::kill, 137, "streaming"},
                           {"ready_recorded", Harm::kill, 137, "ready"},
                           {"table_guarded", Harm::error, 0, "ready"},
                           {"rest_restored", Harm::stop, 1, "indexing"},
                           {"indexes_built", Harm::target_backend, 0, "ready", "index%"},
                           {"table_guarded", Harm::target_down, 0, "ready"},
                           {"before_streaming", Harm::target_down, 0, "ready"},
                           {"before_streaming", Harm::source_down, 0, "ready"},
                       });
}

TEST_F(FaultTableTest, Stream) {
  play(Command::follow,
       {
           {"stream_connected", Harm::kill, 137, "ready"},
           {"apply_before_commit", Harm::kill, 137, "ready"},
           {"apply_after_commit", Harm::kill, 137, "ready"},
           {"before_confirm", Harm::kill, 137, "ready"},
           {"confirmed", Harm::kill, 137, "ready"},
           {"apply_before_commit", Harm::error, 0, "ready", "", "stands still since [0-9:]+ UTC .*failpoint"},
           {"apply_before_commit", Harm::stop, 1, "ready"},
           {"apply_before_commit", Harm::target_backend, 0, "ready", "apply", "connected again"},
           {"before_confirm", Harm::source_backend, 0, "ready", "stream", "connected again"},
           {"apply_before_commit", Harm::target_backend, 0, "ready", "lease", "connected again"},
           {"apply_after_commit", Harm::target_backend, 0, "ready", "%", "connected again"},
           {"apply_before_commit", Harm::target_down, 0, "ready", "", "connected again"},
           {"apply_after_commit", Harm::target_down, 0, "ready", "", "connected again"},
           {"before_confirm", Harm::source_down, 0, "ready", "", "connected again"},
           {"apply_before_commit", Harm::cut_target, 0, "ready", "", "connected again"},
           {"before_confirm", Harm::cut_source, 0, "ready", "", "connected again"},
       });
  play(Command::huge_follow, {
                                 {"apply_window_written", Harm::kill, 137, "ready"},
                                 {"apply_window_written", Harm::source_down, 0, "ready", "", "connected again"},
                                 {"apply_window_written", Harm::target_down, 0, "ready", "", "connected again"},
                             });
}

TEST_F(FaultTableTest, Finish) {
  play(Command::finish, {
                            {"finish_drained", Harm::kill, 137, "ready"},
                            {"finish_deferred", Harm::kill, 137, "ready"},
                            {"finish_noted", Harm::kill, 137, "ready"},
                            {"slot_dropped", Harm::kill, 137, "ready"},
                            {"publication_dropped", Harm::kill, 137, "ready"},
                            {"source_removed", Harm::kill, 137, "ready"},
                            {"guard_dropped", Harm::kill, 137, "ready"},
                            {"guards_dropped", Harm::kill, 137, "ready"},
                            {"state_deleted", Harm::kill, 137, "none"},
                            {"finish_noted", Harm::source_down, 0, "none"},
                            {"slot_dropped", Harm::source_down, 1, "ready"},
                            {"source_removed", Harm::target_down, 1, "ready"},
                            {"guard_dropped", Harm::error, 1, "ready"},
                        });
}

TEST_F(FaultTableTest, Drop) {
  play(Command::drop, {
                          {"slot_dropped", Harm::kill, 137, "ready"},
                          {"publication_dropped", Harm::kill, 137, "ready"},
                          {"source_removed", Harm::kill, 137, "ready"},
                          {"guard_dropped", Harm::kill, 137, "ready"},
                          {"guards_dropped", Harm::kill, 137, "ready"},
                          {"state_deleted", Harm::kill, 137, "none"},
                          {"slot_dropped", Harm::source_down, 1, "ready"},
                          {"source_removed", Harm::target_down, 1, "ready"},
                          {"publication_dropped", Harm::target_backend, 1, "ready", "remove"},
                      });
}

}  // namespace
}  // namespace pgbaton::testing
