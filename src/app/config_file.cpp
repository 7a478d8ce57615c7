// --config FILE.yaml: a flat map with the same names as the flags ('_' may stand for '-'), and sequences for options
// that can be given more than once. An unknown key is an error: a misspelt one would otherwise be silently ignored.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>
#include <pgbaton/app/options.hpp>
#include <pgbaton/base/error.hpp>
#include <pgbaton/pg/plain_password.hpp>

#include <fstream>
#include <set>
#include <sstream>

#include "cmd_switchover.hpp"

namespace pgbaton::app {

namespace {

constexpr std::string_view kPlainPassword = "allow_plain_password";

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Values are never quoted in these messages: they may be connection strings.
struct Reader {
  const std::string& path;
  Options& options;
  std::vector<std::string> lines;
  std::set<std::string> seen;

  std::string place(const YAML::Node& node) const { return fmt::format("{}:{}", path, node.Mark().line + 1); }
  Error wrong(const YAML::Node& node, const std::string& what, const std::string& hint) const {
    return Error(ErrorKind::usage, fmt::format("{}: {}", place(node), what)).hint(hint);
  }

  std::vector<std::string> values(const OptionSpec& spec, const YAML::Node& node) const {
    bool list = is_list(spec);
    if (node.IsScalar()) return {node.Scalar()};
    if (!node.IsSequence() || !list)
      throw wrong(node, fmt::format("{} takes {}", spec.name, list ? "a value or a list of values" : "one value"),
                  fmt::format("Write \"{}: {}\".", spec.name, spec.value.empty() ? "true" : spec.value));
    std::vector<std::string> result;
    for (const auto& item : node) {
      if (!item.IsScalar()) throw wrong(item, fmt::format("{} takes plain values", spec.name), "Write \"- value\".");
      result.push_back(item.Scalar());
    }
    return result;
  }

  // YAML takes a line "jobs" between others for a name without a value, as "jobs:" would be.
  void require_colon(const YAML::Node& key) const {
    const auto mark = key.Mark();
    if (mark.line < 0 || static_cast<std::size_t>(mark.line) >= lines.size()) return;
    const auto& line = lines[static_cast<std::size_t>(mark.line)];
    if (line.find(':', std::min(line.size(), static_cast<std::size_t>(mark.column))) == line.npos)
      throw wrong(key, "a colon is missing behind the name", "Write \"name: value\".");
  }

  // Of two equal names in one map the library takes the last.
  void require_once(const YAML::Node& node, int depth = 0) const {
    constexpr int kDeepest = 20;  // an alias may lead back to what holds it
    if (depth > kDeepest)
      throw wrong(node, "maps and lists are nested too deeply", "No option needs more than two levels.");
    std::set<std::string> names;
    for (const auto& entry : node) {
      if (node.IsMap() && entry.first.IsScalar() && !names.insert(entry.first.Scalar()).second)
        throw wrong(entry.first, fmt::format("{} stands here for the second time", entry.first.Scalar()),
                    "Remove one of the two.");
      const YAML::Node& below = node.IsMap() ? entry.second : entry;
      if (below.IsMap() || below.IsSequence()) require_once(below, depth + 1);
    }
  }

  std::string scalar(const YAML::Node& node, std::string_view what) const {
    if (!node.IsScalar()) throw wrong(node, fmt::format("{} takes one value", what), "Write \"name: value\".");
    return node.Scalar();
  }

  catalog::TableChoice read_choice(const YAML::Node& node) const {
    constexpr auto kForm = "Write \"- {name: schema.table, columns: [a, b], where: condition}\".";
    if (!node.IsMap()) throw wrong(node, "tables takes a list of maps", kForm);
    catalog::TableChoice choice;
    for (const auto& entry : node) {
      const auto what = scalar(entry.first, "a name");
      if (what == "name") {
        choice.name = scalar(entry.second, what);
      } else if (what == "where") {
        choice.where = scalar(entry.second, what);
      } else if (what == "columns" && entry.second.IsSequence()) {
        for (const auto& column : entry.second) choice.columns.push_back(scalar(column, what));
      } else {
        throw wrong(entry.first, fmt::format("tables: \"{}\" is not known here, or has no list", what), kForm);
      }
    }
    if (choice.name.empty() || (choice.columns.empty() && choice.where.empty()))
      throw wrong(node, "tables: an entry needs a name, and columns or where", kForm);
    return choice;
  }

  // No flag: a list of maps.
  void read_choices(const YAML::Node& key, const YAML::Node& value) {
    if (!seen.insert("tables").second)
      throw wrong(key, "tables stands here for the second time", "Remove one of the two.");
    if (value.IsNull()) return;
    if (!value.IsSequence()) throw wrong(value, "tables takes a list", "Write \"- {name: schema.table, …}\" below it.");
    for (const auto& item : value) options.filter.choices.push_back(read_choice(item));
  }

  // No flag, so that it is a decision somebody wrote down: the hosts that may get a password without TLS.
  void read_plain_password_hosts(const YAML::Node& key, const YAML::Node& value) {
    if (!seen.insert(std::string(kPlainPassword)).second)
      throw wrong(key, fmt::format("{} stands here for the second time", kPlainPassword), "Remove one of the two.");
    std::vector<std::string> hosts;
    if (value.IsScalar()) hosts.push_back(value.Scalar());
    if (!value.IsScalar() && !value.IsSequence() && !value.IsNull())
      throw wrong(value, fmt::format("{} takes a host or a list of hosts", kPlainPassword), "Write \"[host, host]\".");
    if (value.IsSequence())
      for (const auto& host : value) hosts.push_back(scalar(host, kPlainPassword));
    pg::allow_plain_password(std::move(hosts));
  }

  void read(const YAML::Node& key, const YAML::Node& value) {
    const std::string& name = key.Scalar();
    if (name == "tables") return read_choices(key, value);
    if (name == kPlainPassword || name == "allow-plain-password") return read_plain_password_hosts(key, value);
    if (name == "switchover") {  // a section of its own, for that command; a mistake in it is told by all
      read_switchover_section(value, path);
      return;
    }
    const OptionSpec* spec = find_option(name);
    if (spec == nullptr || spec->name == "config") {
      std::vector<std::string_view> names;
      for (const OptionSpec& known : option_table()) names.push_back(known.name);
      std::string near = closest(name, names);
      throw wrong(key, fmt::format("there is no option {}", looks_like_conninfo(name) ? "like this" : '"' + name + '"'),
                  near.empty() ? "pgbaton --help lists the options." : fmt::format("Did you mean {}?", near));
    }
    if (!seen.insert(std::string(spec->name)).second)
      throw wrong(key, fmt::format("{} stands here for the second time", spec->name), "Remove one of the two.");
    if (value.IsNull()) return require_colon(key);  // "key:" without a value leaves the default
    auto texts = values(*spec, value);
    if (texts.empty()) return;
    assign(*spec, options, texts, fmt::format("{}: {}", place(key), name));
    options.file_lines[std::string(spec->name)] = place(key);
  }
};

}  // namespace

void load_config_file(const std::string& path, Options& options) {
  std::ifstream file(path);
  std::ostringstream text;
  // A folder opens like a file and fails when it is read.
  if (!file || (file.peek() != EOF && !(text << file.rdbuf())) || file.bad())
    throw Error(ErrorKind::usage, fmt::format("{}: the file cannot be read", path))
        .hint("Check the path after --config.");
  std::vector<YAML::Node> documents;
  try {
    documents = YAML::LoadAll(text.str());
  } catch (const YAML::Exception& error) {
    throw Error(ErrorKind::usage, fmt::format("{}:{}: {}", path, error.mark.line + 1, error.msg))
        .hint("The file is YAML: one \"name: value\" per line; quote values that hold ': ' or '#'.");
  }
  Reader reader{path, options, split_lines(text.str()), {}};
  if (documents.size() > 1 && !documents[1].IsNull())
    throw reader.wrong(documents[1], "a second document begins; of several, none is meant more than the others",
                       "Remove the line \"---\" before it, or keep each in a file of its own.");
  if (documents.empty() || documents[0].IsNull()) return;
  const auto& root = documents[0];
  reader.require_once(root);
  if (!root.IsMap()) throw reader.wrong(root, "a map of options is expected", "Write one \"name: value\" per line.");
  for (const auto& entry : root) {
    if (!entry.first.IsScalar()) throw reader.wrong(entry.first, "a name is expected", "Write \"name: value\".");
    reader.read(entry.first, entry.second);
  }
}

}  // namespace pgbaton::app
