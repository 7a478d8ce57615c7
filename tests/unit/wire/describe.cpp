#include "describe.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace pgbaton::wire::test {

namespace {

// Long values are runs of one letter in the recipe.
std::string shortened(std::string_view data) {
  if (data.size() < 100) return std::string(data);
  const bool is_run = std::all_of(data.begin(), data.end(), [&](char c) { return c == data[0]; });
  return fmt::format("{} x {}", is_run ? data.substr(0, 1) : "mixed", data.size());
}

std::string hex(std::string_view data) {
  std::string text = "\\x";
  for (const char c : data) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

std::string describe(const Value& value) {
  switch (value.kind) {
    case ValueKind::null:
      return "NULL";
    case ValueKind::unchanged:
      return "unchanged";
    case ValueKind::text:
      return "'" + shortened(value.data) + "'";
    case ValueKind::binary:
      return hex(value.data);
  }
  return {};
}

std::string describe(Tuple tuple) {
  std::string text = "(";
  for (const Value& value : tuple) text += (text.size() > 1 ? ", " : "") + describe(value);
  return text + ")";
}

std::string describe(OldRow kind, Tuple tuple) {
  switch (kind) {
    case OldRow::none:
      return tuple.empty() ? "" : " none" + describe(tuple);
    case OldRow::key:
      return " key " + describe(tuple);
    case OldRow::full:
      return " full " + describe(tuple);
  }
  return {};
}

std::string find(const std::map<Oid, std::string>& names, Oid oid) {
  const auto found = names.find(oid);
  return found == names.end() ? fmt::format("unknown oid {}", oid) : found->second;
}

}  // namespace

std::string Describer::relation_name(Oid oid) const {
  return find(relations_, oid);
}

std::string Describer::type_name(Oid oid) const {
  constexpr Oid kFirstUserOid = 16384;  // FirstNormalObjectId: below, an oid means the same on every server
  return oid < kFirstUserOid ? std::to_string(oid) : find(types_, oid);
}

// Binary arrays of a user's type carry its oid inside.
std::string Describer::without_oids(std::string text) const {
  for (const auto& [oid, name] : types_) {
    const std::string digits = fmt::format("{:08x}", oid);
    for (auto at = text.find(digits); at != std::string::npos; at = text.find(digits)) {
      text.replace(at, digits.size(), "<" + name + ">");
    }
  }
  return text;
}

std::string Describer::operator()(const Message& message) {
  return std::visit(*this, message);
}

std::string Describer::operator()(const Begin&) {
  return "Begin";
}
std::string Describer::operator()(const Commit&) {
  return "Commit";
}
std::string Describer::operator()(const Origin& message) {
  return fmt::format("Origin {} {:X}", message.name, message.origin_lsn.value);
}

std::string Describer::operator()(const Relation& message) {
  relations_[message.oid] = fmt::format("{}|{}", message.schema, message.name);
  std::string text = fmt::format("Relation {} identity {}:", relation_name(message.oid), message.replica_identity);
  for (const Column& column : message.columns) {
    text += fmt::format(" [{}{} {}", column.is_key ? "key " : "", column.name, type_name(column.type_oid));
    text += column.type_modifier == -1 ? "]" : fmt::format(" {}]", column.type_modifier);
  }
  return text;
}

std::string Describer::operator()(const Type& message) {
  types_[message.oid] = fmt::format("{}|{}", message.schema, message.name);
  return "Type " + type_name(message.oid);
}

std::string Describer::operator()(const Insert& message) {
  return without_oids(fmt::format("Insert {} {}", relation_name(message.relation_oid), describe(message.new_row)));
}

std::string Describer::operator()(const Update& message) {
  return fmt::format("Update {}{} new {}", relation_name(message.relation_oid),
                     describe(message.old_kind, message.old_row), describe(message.new_row));
}

std::string Describer::operator()(const Delete& message) {
  return fmt::format("Delete {}{}", relation_name(message.relation_oid), describe(message.old_kind, message.old_row));
}

std::string Describer::operator()(const Truncate& message) {
  std::string text = "Truncate";
  for (const Oid oid : message.relation_oids) text += " " + relation_name(oid);
  return text + (message.cascade ? " cascade" : "") + (message.restart_identity ? " restart" : "");
}

std::string Describer::operator()(const LogicalMessage& message) {
  return fmt::format("Message {} '{}' '{}'", message.transactional ? "transactional" : "immediate", message.prefix,
                     message.content);
}

std::string Describer::operator()(const StreamAbort& message) {
  return message.xid == message.sub_xid ? "Stream Abort, whole transaction" : "Stream Abort, subtransaction";
}

}  // namespace pgbaton::wire::test
