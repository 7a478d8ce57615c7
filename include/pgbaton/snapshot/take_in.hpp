// Partitions that were made or attached on the source after the copy, under a root that is published as a whole: their
// rows are in the stream from the first one on. What they held before they were attached is not, so they are taken in
// like every other table: copied at a boundary of their own, below which the stream skips their changes.
#pragma once
#include <pgbaton/snapshot/clone.hpp>

#include <stop_token>

namespace pgbaton::snapshot {

// Makes each such partition on the target (PARTITION OF its parent, with the source's bounds; the parent's columns,
// guard, indexes and constraints come with it), copies it, and records it. While nothing is streamed, by the writer,
// whose term has begun. Returns how many were taken in. Error(rejected) when the target does not accept one.
int take_in_partitions(const CloneOptions& options, const state::Replica& replica, const std::stop_token& stop);

}  // namespace pgbaton::snapshot
