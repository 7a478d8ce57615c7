#include <fmt/format.h>
#include <pgbaton/catalog/member.hpp>

#include <algorithm>
#include <optional>

namespace pgbaton::catalog {
namespace {

// ALTER EXTENSION … ADD makes anything a member, so schemas do not matter.
constexpr std::string_view kMembers = R"(
select n.nspname, c.relname, e.extname, c.relkind, coalesce(c.oid = any(e.extconfig), false),
       coalesce(e.extcondition[array_position(e.extconfig, c.oid)], ''),
       case when exists (select from pg_catalog.pg_attribute a where a.attrelid = c.oid and a.attgenerated <> ''
                            and not a.attisdropped)
            then (select string_agg(quote_ident(a.attname), ', ' order by a.attnum) from pg_catalog.pg_attribute a
                   where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '')
            else '' end,
       c.relkind <> 'S' and n.nspname <> 'pg_catalog' and pg_catalog.pg_has_role(c.relowner, 'USAGE')
  from pg_catalog.pg_depend d join pg_catalog.pg_class c on c.oid = d.objid
       join pg_catalog.pg_namespace n on n.oid = c.relnamespace join pg_catalog.pg_extension e on e.oid = d.refobjid
 where d.classid = 'pg_catalog.pg_class'::regclass and d.objsubid = 0 and d.deptype = 'e'
   and d.refclassid = 'pg_catalog.pg_extension'::regclass and c.relkind in ('r', 'p', 'S') and c.relpersistence <> 't'
 order by n.nspname collate "C", c.relname collate "C")";

struct Content {
  std::int64_t number = 0;  // rows; of a sequence 1 when it was used
  std::string digest;       // of a sequence its value
};

// Rows by a sum, which needs no order; the same text on every major.
Content read_content(pg::Control& connection, const Member& member) {
  pqxx::read_transaction tx(connection);
  tx.exec0("set local lock_timeout = '2s'");
  tx.exec0("set local statement_timeout = '5s'");
  tx.exec0("set local row_security = off");
  if (member.kind == 'S') {
    const auto row = tx.exec1(fmt::format("select last_value, is_called from {}", member.name.quoted()));
    return {row[1].as<bool>() ? 1 : 0, row[0].as<std::string>() + (row[1].as<bool>() ? "" : " (not used)")};
  }
  const auto row = tx.exec1(
      fmt::format("select count(*), coalesce(sum(('x' || substr(md5(m.line), 1, 15))::bit(60)::bigint), 0)::text "
                  "from (select t.*::text as line from only {} t {}) m",
                  member.name.quoted(), member.condition));
  return {row[0].as<std::int64_t>(), row[1].as<std::string>()};
}

struct Read {
  Content content;
  std::string problem;  // why there is none
};

Read read(pg::Control& connection, const Member& member, Side side) {
  try {
    return {pg::control(side, "reading " + member.name.quoted(), [&] { return read_content(connection, member); }), {}};
  } catch (const Error& error) {
    if (error.sqlstate().empty()) throw;  // no answer of the server
    return {{}, error.message()};
  }
}

std::string owned_by(const Member& member) {
  return fmt::format("belongs to extension {}", quote_identifier(member.extension));
}

std::string copy_by_hand(const Member& member, const Content& content) {
  const auto name = member.name.quoted();
  if (member.kind == 'S')
    return fmt::format("On the target: SELECT pg_catalog.setval({}, {}, true);", quote_literal(name), content.digest);
  const auto condition = member.condition.empty() ? "" : " " + member.condition;
  const auto columns = member.columns.empty() ? "" : " (" + member.columns + ")";
  return fmt::format(
      "When its writers have stopped, in psql on the source: \\copy (SELECT {0} FROM ONLY {1}{2}) TO 'rows.copy' and "
      "on the target: DELETE FROM ONLY {1}{2}; \\copy {1}{3} FROM 'rows.copy'",
      member.columns.empty() ? "*" : member.columns, name, condition, columns);
}

std::string what_there_is(const Member& member, const Content& content) {
  if (member.kind == 'S') return fmt::format("its value is {}", content.digest);
  return fmt::format("it has {} {}", content.number, content.number == 1 ? "row" : "rows");
}

LeftMember left(const Member& member, const std::string& what, const Content& content) {
  return {member, fmt::format("{}, and is not carried: {}", owned_by(member), what), copy_by_hand(member, content)};
}

// Nothing: the target has the same.
std::optional<LeftMember> compare(pg::Control& source, pg::Control* target, const Member& member, bool on_target) {
  const auto here = read(source, member, Side::source);
  if (!here.problem.empty()) return left(member, "it could not be read (" + here.problem + ")", here.content);
  const auto& content = here.content;
  if (!on_target) {
    if (content.number == 0) return std::nullopt;
    return left(member,
                what_there_is(member, content) +
                    (target == nullptr ? "" : ", and does not exist on the target by now") +
                    (member.configuration ? "" : "; whether CREATE EXTENSION makes the same is not known"),
                content);
  }
  const auto there = read(*target, member, Side::target);
  if (!there.problem.empty())
    return content.number == 0 ? std::nullopt
                               : std::optional(left(member,
                                                    fmt::format("{}, and the target's could not be read ({})",
                                                                what_there_is(member, content), there.problem),
                                                    content));
  if (content.number == there.content.number && content.digest == there.content.digest) return std::nullopt;
  const bool same_number = content.number == there.content.number && member.kind != 'S';
  return left(member,
              fmt::format("{} on the source and {} on the target{}", what_there_is(member, content),
                          member.kind == 'S' ? there.content.digest : std::to_string(there.content.number),
                          same_number ? ", which differ" : ""),
              content);
}

}  // namespace

std::vector<Member> load_members(pg::Control& connection, Side side) {
  return pg::control(side, "reading what belongs to extensions", [&] {
    pqxx::read_transaction tx(connection);
    std::vector<Member> members;
    for (auto row : tx.exec(std::string(kMembers)))
      members.push_back({{row[0].as<std::string>(), row[1].as<std::string>()},
                         row[2].as<std::string>(),
                         *row[3].c_str(),
                         row[4].as<bool>(),
                         row[5].as<std::string>(),
                         row[6].as<std::string>(),
                         row[7].as<bool>()});
    return members;
  });
}

std::vector<LeftMember> load_left_members(pg::Control& source, pg::Control* target) {
  std::vector<QualifiedName> there;
  if (target != nullptr)
    for (const auto& member : load_members(*target, Side::target)) there.push_back(member.name);
  std::vector<LeftMember> found;
  for (const auto& member : load_members(source, Side::source)) {
    if (member.kind == 'p') continue;  // its rows lie in its partitions
    const bool on_target = std::ranges::find(there, member.name) != there.end();
    if (auto one = compare(source, target, member, on_target)) found.push_back(std::move(*one));
  }
  return found;
}

}  // namespace pgbaton::catalog
