// The databases of generations.
#pragma once
#include "registry.hpp"

namespace pgbaton::rebuild {

// From template0, encoded and sorted like `live`, else like the source. A database of that name: Error(preflight).
void create_database(Registry& registry, Generation& generation, const std::optional<Generation>& live);
// The server waits, when it drops a database, for every session of every database to take notice. One that is stopped
// never does: after `patience` it is given up, and the next run does it.
inline constexpr Milliseconds kDropPatience{600'000};
// For sessions that were told to end.
inline constexpr Milliseconds kSessionsPatience{10'000};
// Of pg_stat_activity a: the sessions of others in these databases ("'a', 'b'"), but for autovacuum, which leaves by
// itself; and those of them that the role may end.
std::string sessions_condition(const std::string& databases);
std::string may_be_ended_condition();
// Ends those; yields how many were told to.
std::string end_sessions_query(const std::string& databases);
// Ends its sessions and drops it; none of that name: nothing happens.
void drop_database(Registry& registry, const std::string& name, Milliseconds patience = kDropPatience);
// Owner, connection limit, comment, rights and settings of the live database.
void carry_over(Registry& registry, const std::string& live, const std::string& database);

// Slot, publications, guards and state of the replica in the generation's database, if there are any.
snapshot::RemovalReport release_replica(Registry& registry, const Generation& generation);
// All of a generation that is not live: what is on the source first, then the database, then the row. What could not be
// removed stays recorded and is told.
snapshot::RemovalReport remove_generation(Registry& registry, const Generation& generation,
                                          Milliseconds patience = kDropPatience);
// What runs that did not end have left, and slots of generations that do not serve any more. Needs the lock.
snapshot::RemovalReport sweep_leftovers(Registry& registry);
// Keeps the `keep` earlier generations that went last; the names of those that were dropped are returned, and what
// could not be removed is added to `left`.
std::vector<std::string> prune(Registry& registry, int keep, std::vector<std::string>& left);

}  // namespace pgbaton::rebuild
