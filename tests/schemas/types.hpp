// Column types and values of them.
#pragma once
#include <span>

#include "random.hpp"

namespace pgbaton::schemas {

struct Type {
  const char* name;               // in DDL; types of the schema's own are found by search_path
  std::string (*value)(Random&);  // an SQL expression of this type, never NULL
  const char* respell = nullptr;  // an expression of {} that is equal for the type's own operator; keys only
  int key_weight = 0;             // how often it is taken for a key; 0: never
};

// Every type a column can have. The own ones are made by kOwnTypes, in each schema.
std::span<const Type> all_types();
const Type& any_type(Random& random);
const Type& any_key_type(Random& random);
const Type& integer_type();
const Type& range_type();

// Once per database; once per schema.
extern const char* const kSharedTypes;
extern const char* const kOwnTypes;

}  // namespace pgbaton::schemas
