// One run of `clone`, from the first connection to phase streaming: what its steps share. Used by one thread; the
// workers of copy and IndexPool get copies of what they need.
#pragma once
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/snapshot/clone.hpp>
#include <pgbaton/source/publication.hpp>
#include <pgbaton/source/slot.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace pgbaton::snapshot {

// What this very run has made: a failure takes back these and no others.
struct Made {
  bool record = false, publications = false, slot = false;
  bool schema = false;  // on the target; recorded a moment later as replica.schema_restored
};

// As long as the workers of the copy wait for a server that went away.
inline constexpr Milliseconds kPatience{60'000};

struct Build {
  // Connects to both sides.
  Build(const CloneOptions& clone_options, state::Lease& writers_lease, copy::CopyProgress& copy_progress,
        std::stop_token stop_token);

  const CloneOptions& options;
  state::Lease& lease;
  copy::CopyProgress& progress;
  std::stop_token stop;

  std::unique_ptr<pg::Control> source, target;
  state::Store store;
  catalog::Server source_server, target_server;
  state::Replica replica;                               // phase none: there is none yet
  std::vector<copy::CopyJob> jobs;                      // every recorded table, skipped ones included
  std::optional<source::SlotSnapshot> snapshot;         // of the boundary that is being copied on
  std::optional<copy::SchemaArchive> archive;           // of the newest snapshot; none with --schema none
  std::map<QualifiedName, QualifiedName> target_roots;  // partition → topmost table, as the target has them
  std::atomic<bool> any_table_committed{false};
  Made made;
  CloneSummary summary;

  // Makes sure of both control connections and the lease, as long as a server is away for less than kPatience: work
  // that others did meanwhile, on connections of their own, may have survived an outage that these did not.
  void revive();
  // Runs work that may be repeated as a whole, again after what passes (action retry).
  void persist(const std::function<void()>& work);

  // An event: so many tables are copied on the snapshot from now on.
  void tell_boundary(const std::string& slot, std::size_t tables);

  // Reads what both sides are and finds the replica. Refuses source and target being one database.
  void inspect();
  bool restores_schema() const { return options.schema == SchemaMode::full; }
};

}  // namespace pgbaton::snapshot
