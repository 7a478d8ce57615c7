#include <fmt/format.h>
#include <pgbaton/catalog/definition.hpp>
#include <pgbaton/embedded_sql.hpp>

#include <map>
#include <tuple>

namespace pgbaton::catalog {
namespace {

using Key = std::tuple<std::string, QualifiedName, std::string>;
using Definitions = std::map<Key, const Definition*>;

Key key_of(const Definition& definition) {
  return {definition.kind, definition.relation, definition.part};
}

bool is_view(const Definition& definition) {
  return definition.kind == "view" || definition.kind == "materialized view" || definition.kind == "foreign table";
}

// Those that only the source has are told where sequences are set.
bool is_sequence(const Definition& definition) {
  return definition.kind == "sequence";
}

bool is_relation(const Definition& definition) {
  return definition.kind == "table" || is_view(definition);
}

class Comparison {
 public:
  Comparison(const std::vector<Definition>& source, const std::vector<Definition>& target, const DefinitionScope& scope)
      : source_(keyed(source)), target_(keyed(target)), scope_(scope) {
    std::set<QualifiedName> there;
    for (const auto& definition : target)
      if (is_relation(definition)) there.insert(definition.relation);
    for (const auto& definition : source)
      if (is_relation(definition) && there.contains(definition.relation) &&
          (definition.kind == "table" ? scope.tables.contains(definition.relation) : scope.whole))
        shared_.insert(definition.relation);
    for (const auto& name : scope.tables) carried_.insert(name.quoted());
  }

  std::vector<DefinitionDifference> run() {
    for (const auto& [key, here] : source_) {
      const auto there = target_.find(key);
      if (!concerns(*here)) continue;
      if (there == target_.end()) {
        if (!is_sequence(*here)) add(*here, "is on the source only", here->make);
      } else if (scope_.texts && here->text != there->second->text) {
        const auto& take = there->second->take;
        add(*here, "is not the same on both sides", take.empty() ? here->make : take + "; " + here->make);
      }
    }
    for (const auto& [key, there] : target_)
      if (there->enforces && !source_.contains(key) && concerns(*there))
        add(*there, "is on the target only", there->take);
    return std::move(found_);
  }

 private:
  static Definitions keyed(const std::vector<Definition>& all) {
    Definitions result;
    for (const auto& definition : all) result.emplace(key_of(definition), &definition);
    return result;
  }

  bool concerns(const Definition& definition) const {
    if (definition.kind == "table") return false;
    if (definition.kind == "function" || is_sequence(definition) || is_view(definition)) return scope_.whole;
    const bool refers_elsewhere = !definition.referenced.empty() && !carried_.contains(definition.referenced);
    return shared_.contains(definition.relation) && (scope_.whole || !refers_elsewhere);
  }

  void add(const Definition& definition, const std::string& what, const std::string& statement) {
    const auto remedy = statement.empty() ? "Take it from the source: pg_dump --schema-only shows it."
                                          : statement + "; on the target, if it is wanted there.";
    if (definition.kind == "function")
      found_.push_back(
          {fmt::format("{}({})", definition.relation.quoted(), definition.part), "the function " + what, remedy});
    else if (definition.part.empty())
      found_.push_back({definition.relation.quoted(), fmt::format("the {} {}", definition.kind, what), remedy});
    else
      found_.push_back({definition.relation.quoted(), definition.called + " " + what, remedy});
  }

  Definitions source_, target_;
  const DefinitionScope& scope_;
  std::set<QualifiedName> shared_;
  std::set<std::string> carried_;
  std::vector<DefinitionDifference> found_;
};

}  // namespace

std::vector<Definition> load_definitions(pg::Control& connection, Side side) {
  return pg::control(side, "reading indexes, constraints, triggers and the like", [&] {
    pqxx::read_transaction tx(connection);
    tx.exec0("set local search_path = ''");
    tx.exec0("set local quote_all_identifiers = off");
    tx.exec0("set local lock_timeout = '5s'");
    std::vector<Definition> all;
    for (auto row : tx.exec(std::string(sql::definitions)))
      all.push_back({row["kind"].as<std::string>(),
                     {row["schema_name"].as<std::string>(), row["relation"].as<std::string>()},
                     row["part"].as<std::string>(),
                     row["called"].as<std::string>(),
                     row["referenced"].as<std::string>(),
                     row["text"].as<std::string>(),
                     row["make"].as<std::string>(),
                     row["take"].as<std::string>(),
                     row["enforces"].as<bool>()});
    return all;
  });
}

std::vector<DefinitionDifference> compare_definitions(const std::vector<Definition>& source,
                                                      const std::vector<Definition>& target,
                                                      const DefinitionScope& scope) {
  return Comparison(source, target, scope).run();
}

}  // namespace pgbaton::catalog
