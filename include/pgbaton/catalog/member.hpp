// Tables and sequences that belong to an extension. They are part of no replica: CREATE EXTENSION makes them on the
// target, and pg_dump carries rows of those that the extension calls its configuration (pg_extension.extconfig) only
// together with all other rows. What the application has put into them (jobs, rules, its own reference systems) has to
// be named, because nothing carries it.
#pragma once
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/pg/control.hpp>

#include <string>
#include <vector>

namespace pgbaton::catalog {

struct Member {
  QualifiedName name;
  std::string extension;
  char kind = 'r';             // pg_class.relkind: r, p or S
  bool configuration = false;  // rows that satisfy `condition` are the application's
  std::string condition;       // "WHERE …" or "": of extconfig
  std::string columns;         // that COPY takes, "" for all
  bool fenceable = false;      // a table outside of pg_catalog that the role may put triggers on
};

// In the order of their names.
std::vector<Member> load_members(pg::Control& connection, Side side);

// A member whose rows (or value) the target does not have, as far as can be told.
struct LeftMember {
  Member member;
  std::string message, remedy;
};

// Compares the rows of both sides, each member within a few seconds, and waits for no lock longer than that; what
// cannot be read or compared in time is named with the reason. `target` may be null, or lack the extension by now: rows
// of configuration tables are named then, and of other members, too, because only the extension knows whether CREATE
// EXTENSION makes them.
std::vector<LeftMember> load_left_members(pg::Control& source, pg::Control* target);

}  // namespace pgbaton::catalog
