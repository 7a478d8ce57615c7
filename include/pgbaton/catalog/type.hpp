// What the types of columns are made of, as far as it decides what a stored value reads as: labels of an enum,
// attributes of a composite type, what a domain or a range stands on. DDL on a type sends nothing. Read only, no locks.
#pragma once
#include <pgbaton/catalog/table.hpp>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace pgbaton::catalog {

struct Attribute {
  std::string name, type;  // type: format_type(), with COLLATE where it has one of its own
  bool operator==(const Attribute&) const = default;
};

struct Type {
  QualifiedName name;
  char kind = 'e';                                 // typtype: e enum, c composite, d domain, r range
  std::vector<std::string> labels;                 // of an enum, in their order
  std::vector<Attribute> attributes;               // of a composite type, in their order
  std::string base;                                // of a domain or range: what it stands on, with its collation
  bool not_null = false;                           // of a domain
  std::map<std::string, std::string> constraints;  // of a domain: definition by name
};

// All of it, to see whether anything has changed.
std::string to_text(const Type& type);

struct Types {
  // Enums, composite types (not the rows of tables), domains and ranges that columns of user tables are made of,
  // however deep inside; nothing that came with the server.
  std::map<QualifiedName, Type> by_name;
  std::map<Oid, std::set<QualifiedName>> inside;                 // of a column's type, its own name included
  std::map<Oid, std::map<std::string, std::string>> collations;  // by table and column, where it is not the type's own
};
// No transaction may be open on the connection.
Types load_types(pg::Control& connection, Side side);

// How the target's type of the same name differs. Pure. A label that only the target's enum has is no difference: no
// row of the source has it.
struct TypeDifference {
  std::string reason;        // behind "uses type …, ": for people
  std::string statements;    // that make the target's like the source's, each with "; " behind it; "" where none can
  bool rows_differ = false;  // rows from before may read as something else even when the types are alike again
};
// `compare_constraints`: whether both servers print constraints in the same words (the same major).
std::optional<TypeDifference> compare(const Type& source, const Type& target, bool compare_constraints);

}  // namespace pgbaton::catalog
