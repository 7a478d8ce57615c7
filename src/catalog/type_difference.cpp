// Labels and attributes are matched by name, and what stands between the same neighbours on both sides by its place: in
// [a, b] and [a, bb] the label b was renamed. Where the names that both have stand in another order, no statement
// helps.
#include <fmt/format.h>
#include <pgbaton/catalog/type.hpp>

#include <algorithm>
#include <utility>

namespace pgbaton::catalog {
namespace {

using Names = std::vector<std::string>;

bool contains(const Names& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

Names common(const Names& of, const Names& with) {
  Names both;
  for (const auto& name : of)
    if (contains(with, name)) both.push_back(name);
  return both;
}

// What one side alone has between two neighbours that both have.
struct Gap {
  Names source, target;
};

// As many as there are common names, and one.
std::vector<Gap> gaps(const Names& source, const Names& target) {
  const auto split = [](const Names& names, const Names& with) {
    std::vector<Names> parts(1);
    for (const auto& name : names) {
      if (contains(with, name))
        parts.emplace_back();
      else
        parts.back().push_back(name);
    }
    return parts;
  };
  auto here = split(source, target), there = split(target, source);
  std::vector<Gap> all;
  for (std::size_t i = 0; i < here.size() && i < there.size(); ++i)
    all.push_back({std::move(here[i]), std::move(there[i])});
  return all;
}

class Comparison {
 public:
  explicit Comparison(const Type& source) : alter_("ALTER TYPE " + source.name.quoted()) {}

  void say(const std::string& text) { reason_ += (reason_.empty() ? "" : ", ") + text; }
  void run(const std::string& what) { statements_ += alter_ + " " + what + "; "; }
  void rows_differ() { rows_differ_ = true; }
  void no_statement_helps() { helpless_ = true; }
  void alter_domain(const QualifiedName& name) { alter_ = "ALTER DOMAIN " + name.quoted(); }

  std::optional<TypeDifference> take() {
    if (reason_.empty()) return std::nullopt;
    return TypeDifference{reason_, helpless_ ? "" : statements_, rows_differ_};
  }

 private:
  std::string alter_, reason_, statements_;
  bool rows_differ_ = false, helpless_ = false;
};

// The first two that stand in the other order there.
std::string order_text(std::string_view what, const Names& source, const Names& target) {
  for (std::size_t i = 0; i < source.size(); ++i)
    if (source[i] != target[i])
      return fmt::format("on the target its {} {} stands where the source has {}", what, quote_literal(target[i]),
                         quote_literal(source[i]));
  return {};
}

void add_label(Comparison& to, const std::string& label, const Names& all) {
  to.say(fmt::format("the target lacks its label {}", quote_literal(label)));
  const auto at = std::ranges::find(all, label);
  std::string place;
  if (at != all.begin())
    place = " AFTER " + quote_literal(*std::prev(at));
  else if (std::next(at) != all.end())
    place = " BEFORE " + quote_literal(*std::next(at));
  to.run(fmt::format("ADD VALUE {}{}", quote_literal(label), place));
}

void compare_labels(Comparison& to, const Type& source, const Type& target) {
  const auto here = common(source.labels, target.labels), there = common(target.labels, source.labels);
  if (here != there) {
    to.say(order_text("label", here, there));
    return to.no_statement_helps();
  }
  // Renames first: a label is added beside one that has its name by then.
  std::vector<std::string> added;
  for (const auto& gap : gaps(source.labels, target.labels))
    for (std::size_t i = 0; i < gap.source.size(); ++i) {
      const auto label = quote_literal(gap.source[i]);
      if (i >= gap.target.size()) {
        added.push_back(gap.source[i]);
        continue;
      }
      to.say(fmt::format("the target calls its label {} {}", label, quote_literal(gap.target[i])));
      to.run(fmt::format("RENAME VALUE {} TO {}", quote_literal(gap.target[i]), label));
      to.rows_differ();
    }
  Names present = source.labels;
  std::erase_if(present, [&](const auto& label) { return contains(added, label); });
  for (const auto& label : added) {
    const auto at = std::ranges::find(source.labels, label) - source.labels.begin();
    Names around;
    for (std::size_t i = 0; i < source.labels.size(); ++i)
      if (static_cast<std::ptrdiff_t>(i) == at || contains(present, source.labels[i]))
        around.push_back(source.labels[i]);
    add_label(to, label, around);
    present.push_back(label);
  }
}

Names names_of(const std::vector<Attribute>& attributes) {
  Names names;
  for (const auto& attribute : attributes) names.push_back(attribute.name);
  return names;
}

const Attribute& find(const std::vector<Attribute>& attributes, const std::string& name) {
  return *std::ranges::find(attributes, name, &Attribute::name);
}

// Values are sent by place: an attribute must stand where the source has it.
void compare_attributes(Comparison& to, const Type& source, const Type& target) {
  const auto here = names_of(source.attributes), there = names_of(target.attributes);
  Names after = there;  // the statements
  if (common(here, there) != common(there, here)) {
    to.say(order_text("attribute", common(here, there), common(there, here)));
    to.no_statement_helps();
    to.rows_differ();
  }
  Names drops, adds;
  for (const auto& gap : gaps(here, there))
    for (std::size_t i = 0; i < std::max(gap.source.size(), gap.target.size()); ++i) {
      const bool both = i < gap.source.size() && i < gap.target.size();
      if (both && find(source.attributes, gap.source[i]).type == find(target.attributes, gap.target[i]).type) {
        to.say(fmt::format("the target calls its attribute {} {}", quote_identifier(gap.source[i]),
                           quote_identifier(gap.target[i])));
        to.run(
            fmt::format("RENAME ATTRIBUTE {} TO {}", quote_identifier(gap.target[i]), quote_identifier(gap.source[i])));
        *std::ranges::find(after, gap.target[i]) = gap.source[i];
        to.rows_differ();
        continue;
      }
      if (i < gap.target.size()) drops.push_back(gap.target[i]);
      if (i < gap.source.size()) adds.push_back(gap.source[i]);
    }
  for (const auto& name : drops) {
    to.say(fmt::format("the target has an attribute {} more", quote_identifier(name)));
    to.run("DROP ATTRIBUTE " + quote_identifier(name));
    std::erase(after, name);
    to.rows_differ();
  }
  for (const auto& name : adds) {
    to.say(fmt::format("the target lacks its attribute {}", quote_identifier(name)));
    to.run(fmt::format("ADD ATTRIBUTE {} {}", quote_identifier(name), find(source.attributes, name).type));
    after.push_back(name);
  }
  for (const auto& name : common(here, there)) {
    const auto &wanted = find(source.attributes, name).type, &found = find(target.attributes, name).type;
    if (wanted == found) continue;
    to.say(fmt::format("its attribute {} is {} on the source and {} on the target", quote_identifier(name), wanted,
                       found));
    to.run(fmt::format("ALTER ATTRIBUTE {} TYPE {}", quote_identifier(name), wanted));
    to.rows_differ();
  }
  if (after != here) to.no_statement_helps();
}

void compare_domain(Comparison& to, const Type& source, const Type& target, bool same_words) {
  to.alter_domain(source.name);
  if (source.not_null != target.not_null) {
    to.say(source.not_null ? "it is NOT NULL on the source alone" : "it is NOT NULL on the target alone");
    to.run(source.not_null ? "SET NOT NULL" : "DROP NOT NULL");
  }
  for (const auto& [name, text] : target.constraints) {
    const auto found = source.constraints.find(name);
    if (found != source.constraints.end() && (found->second == text || !same_words)) continue;
    if (found == source.constraints.end())
      to.say(fmt::format("the target has its constraint {} alone", quote_identifier(name)));
    to.run("DROP CONSTRAINT " + quote_identifier(name));
  }
  for (const auto& [name, text] : source.constraints) {
    const auto found = target.constraints.find(name);
    if (found != target.constraints.end() && (found->second == text || !same_words)) continue;
    to.say(found == target.constraints.end()
               ? fmt::format("the target lacks its constraint {}", quote_identifier(name))
               : fmt::format("its constraint {} says another thing on the target", quote_identifier(name)));
    to.run(fmt::format("ADD CONSTRAINT {} {}", quote_identifier(name), text));
  }
}

std::string_view kind_name(char kind) {
  return kind == 'e' ? "an enum" : kind == 'c' ? "a composite type" : kind == 'd' ? "a domain" : "a range";
}

}  // namespace

std::optional<TypeDifference> compare(const Type& source, const Type& target, bool compare_constraints) {
  Comparison comparison(source);
  if (source.kind != target.kind) {
    comparison.say(
        fmt::format("which is {} on the source and {} on the target", kind_name(source.kind), kind_name(target.kind)));
    return comparison.take();
  }
  if (source.base != target.base) {
    comparison.say(fmt::format("which stands on {} on the source and on {} on the target", source.base, target.base));
    comparison.no_statement_helps();
  }
  if (source.kind == 'e') compare_labels(comparison, source, target);
  if (source.kind == 'c') compare_attributes(comparison, source, target);
  if (source.kind == 'd') compare_domain(comparison, source, target, compare_constraints);
  return comparison.take();
}

}  // namespace pgbaton::catalog
