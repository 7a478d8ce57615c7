// Decoded messages as readable lines without what differs on every run (LSNs, times, transaction ids, oids): the form
// of tests/data/wire/*.expected.
#pragma once
#include <pgbaton/wire/message.hpp>

#include <map>
#include <string>

namespace pgbaton::wire::test {

class Describer {
 public:
  // Relation and Type messages are remembered, so that later lines can name what they refer to.
  std::string operator()(const Message& message);

  std::string operator()(const Begin& message);
  std::string operator()(const Commit& message);
  std::string operator()(const Origin& message);
  std::string operator()(const Relation& message);
  std::string operator()(const Type& message);
  std::string operator()(const Insert& message);
  std::string operator()(const Update& message);
  std::string operator()(const Delete& message);
  std::string operator()(const Truncate& message);
  std::string operator()(const LogicalMessage& message);
  std::string operator()(const StreamAbort& message);

 private:
  std::string relation_name(Oid oid) const;
  std::string type_name(Oid oid) const;
  std::string without_oids(std::string text) const;
  std::map<Oid, std::string> relations_, types_;
};

}  // namespace pgbaton::wire::test
