// pgbaton.generation in the maintenance database, and the lock. Every change needs the lock.
#pragma once
#include <pgbaton/pg/control.hpp>
#include <pgbaton/rebuild/rebuild.hpp>

#include <functional>

namespace pgbaton::rebuild {

struct Generation {
  std::int64_t id = 0;
  std::string live, replica, state, on_source, source, started_at, live_at;
  bool built = true;
  std::uint32_t oid = 0;  // 0: not known to have been made
  bool begun = false;     // CREATE DATABASE was about to be sent: a database of the name is this generation's
  Lsn position;
  double age_seconds = -1;
  std::string database() const { return state == "live" ? live : kept_name(); }
  std::string kept_name() const { return live + "__g" + std::to_string(id); }
  // Of the replica in it while it is built.
  ReplicaNames names() const;
};

// The same server and role, another database.
pg::Endpoint endpoint_of(const Place& place, const std::string& database);
// The database that --target names, also when it does not exist.
std::string live_name(const Place& place);

class Registry {
 public:
  explicit Registry(const Place& place);  // connects

  bool installed();
  void install();
  // Error(held_elsewhere) at once when another process has it.
  void lock();
  // Whether a process, this one or another, has it now.
  bool locked();
  // The lock's connection may have broken during a long copy. Takes the lock again, and makes sure that nobody removed
  // generation `id` meanwhile.
  void keep_locked(std::int64_t id);

  std::vector<Generation> load();  // newest first
  std::optional<Generation> live();
  // The database that serves now, as the registry's live row: recorded when it is not known, and a row of one that is
  // gone is forgotten. Nothing when no database has the name.
  std::optional<Generation> settle_live();
  // The newest earlier one than `live` that went last. Error(usage) when there is none.
  Generation previous(const std::optional<Generation>& live);
  // An id whose database name is free: another registry's generations, and anybody's databases, may have such names.
  Generation begin(const std::string& mode);
  void creating(Generation& generation, bool begun);
  void created(Generation& generation);  // reads the oid
  void store_position(const Generation& generation, Lsn position);
  void store_on_source(Generation& generation, const std::string& base);
  void forget(const Generation& generation);
  // Inside the transaction of the swap. `outgoing` 0: none.
  static void change_live(pqxx::transaction_base& tx, std::int64_t outgoing, std::int64_t incoming);

  std::uint32_t oid_of(const std::string& database);  // 0: there is none
  bool exists(const std::string& database) { return oid_of(database) != 0; }
  // One statement outside of a transaction, with the side and `doing` in its error.
  pqxx::result run(std::string_view doing, const std::string& sql);
  pg::Control& connection() { return *connection_; }
  const Place& place() const { return place_; }
  const std::string& name() const { return live_; }

 private:
  bool try_lock();
  Generation insert(const std::string& mode);
  Error held_elsewhere();
  Place place_;
  std::string live_;
  std::unique_ptr<pg::Control> connection_;
};

}  // namespace pgbaton::rebuild
