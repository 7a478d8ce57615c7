#include <fmt/format.h>
#include <pgbaton/app/options.hpp>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/base/size.hpp>
#include <pgbaton/catalog/choice.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <ranges>
#include <set>

#include "command.hpp"
#include "option_rules.hpp"

namespace pgbaton::app {

namespace {

Error usage(const std::string& message, std::string_view hint) {
  return Error(ErrorKind::usage, message).hint(hint);
}

bool parse_flag(const std::string& value, const std::string& origin) {
  if (value == "true" || value == "yes" || value == "on") return true;
  if (value == "false" || value == "no" || value == "off") return false;
  throw usage(fmt::format("{}: \"{}\" is neither true nor false", origin, value), "Write true or false.");
}

std::int64_t parse_number(const OptionSpec& spec, const std::string& value, const std::string& origin) {
  std::int64_t number = 0;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size())
    throw usage(fmt::format("{}: \"{}\" is not a whole number", origin, value), "Give a number such as 4.");
  if (number < spec.minimum || number > spec.maximum)
    throw usage(fmt::format("{}: {} is not between {} and {}", origin, number, spec.minimum, spec.maximum),
                "Give a number within these limits.");
  return number;
}

std::uint64_t parse_bounded_size(const OptionSpec& spec, const std::string& value, const std::string& origin) {
  auto bytes = parse_size(value, origin);
  if (bytes > static_cast<std::uint64_t>(spec.maximum))
    throw usage(
        fmt::format("{}: {} is more than {}", origin, value, format_size(static_cast<std::uint64_t>(spec.maximum))),
        "Give a smaller size.");
  if (bytes < static_cast<std::uint64_t>(spec.minimum))
    throw usage(
        fmt::format("{}: {} is less than {}", origin, value, format_size(static_cast<std::uint64_t>(spec.minimum))),
        "Give a larger size.");
  return bytes;
}

void require_choice(const OptionSpec& spec, const std::string& value, const std::string& origin) {
  if (spec.choices.empty()) return;
  std::string list;
  for (auto part : std::views::split(spec.choices, '|')) {
    std::string_view choice(part.begin(), part.end());
    if (choice == value) return;
    list += (list.empty() ? "" : ", ") + std::string(choice);
  }
  throw usage(fmt::format("{}: \"{}\" is not one of: {}", origin, value, list),
              fmt::format("Allowed values: {}.", list));
}

struct Assign {
  const OptionSpec& spec;
  Options& options;
  const std::vector<std::string>& values;
  const std::string& origin;

  void operator()(bool Options::*field) const { options.*field = parse_flag(values.back(), origin); }
  void operator()(std::string Options::*field) const {
    require_choice(spec, values.back(), origin);
    options.*field = values.back();
  }
  void operator()(int Options::*field) const {
    options.*field = static_cast<int>(parse_number(spec, values.back(), origin));
  }
  void operator()(std::int64_t Options::*field) const { options.*field = parse_number(spec, values.back(), origin); }
  void operator()(std::uint64_t Options::*field) const {
    options.*field = parse_bounded_size(spec, values.back(), origin);
  }
  void operator()(Milliseconds Options::*field) const { options.*field = parse_duration(values.back(), origin); }
  void operator()(std::optional<Milliseconds> Options::*field) const {
    options.*field = parse_duration(values.back(), origin);
  }
  void operator()(std::vector<std::string> catalog::TableFilter::*field) const { options.filter.*field = values; }
  void operator()(std::vector<std::string> Options::*field) const { options.*field = values; }
};

// A connection string in the place of another value: what would be said of it repeats the value.
void refuse_secrets(const OptionSpec& spec, const std::vector<std::string>& values, const std::string& origin) {
  constexpr std::array<std::string_view, 4> kRepeated{"name", "log-level", "until-lsn", "tombstone-retention"};
  const bool is_text = std::holds_alternative<std::string Options::*>(spec.field) || is_list(spec);
  if (is_text && spec.choices.empty() && std::ranges::find(kRepeated, spec.name) == kRepeated.end()) return;
  if (std::ranges::any_of(values, looks_like_conninfo))
    throw usage(origin + ": a connection string or the like is no value for it",
                "Connection strings follow --source and --target.");
}

// Options that a later version brings are refused rather than ignored: a user who asks for them relies on them.
void refuse_unfinished(const Options& options) {
  if (options.appliers != 1)
    throw usage(fmt::format("--appliers {}: not in this version yet, which applies changes on one connection",
                            options.appliers),
                "Leave --appliers out.");
}

void refuse_misplaced(const OptionSpec& spec, const Command& command) {
  if (spec.common || (spec.used_by & command.use) != 0) return;
  std::string users;
  for (const Command& other : command_table())
    if ((other.use & spec.used_by) != 0) users += (users.empty() ? "" : ", ") + std::string(other.name);
  throw usage(fmt::format("--{} has no meaning for {}", spec.name, command.name),
              fmt::format("It belongs to: {}.", users));
}

}  // namespace

void assign(const OptionSpec& spec, Options& options, const std::vector<std::string>& values,
            const std::string& origin) {
  if (values.empty())
    throw usage(origin + ": a value is missing", fmt::format("Write --{} {}.", spec.name, spec.value));
  refuse_secrets(spec, values, origin);
  // A script's variable that is not set; the default in its place could mean another replica, or all of the tables.
  if (std::ranges::any_of(values, [](const auto& value) { return value.find_first_not_of(" \t\r\n") == value.npos; }))
    throw usage(origin + ": the value is empty", fmt::format("Is a variable not set? Write --{} {}, or leave --{} out.",
                                                             spec.name, spec.value, spec.name));
  std::visit(Assign{spec, options, values, origin}, spec.field);
}

void refuse_misplaced_option(std::string_view name, const Command& command) {
  if (const OptionSpec* spec = find_option(name)) refuse_misplaced(*spec, command);
}

void add_origin(Error& error, const Options& options, std::string_view name) {
  if (auto line = options.file_lines.find(name); line != options.file_lines.end()) error.context(line->second);
}

void add_origin(Error& error, const Options& options) {
  std::string_view message = error.message();
  if (error.kind() != ErrorKind::usage || !message.starts_with("--")) return;
  message.remove_prefix(2);
  add_origin(error, options, message.substr(0, std::min(message.find_first_of(": "), message.size())));
}

// A number with a unit of bytes is a size, everything else a duration.
stream::RetentionOptions retention_options(const Options& options) {
  stream::RetentionOptions result;
  result.always = options.tombstones == "always";
  const auto& text = options.tombstone_retention;
  if (text.empty() || text == "auto") return result;
  if (text.ends_with('B') || text.ends_with('b'))
    result.bytes = parse_size(text, "--tombstone-retention");
  else
    result.time = parse_duration(text, "--tombstone-retention");
  return result;
}

bool looks_like_conninfo(std::string_view word) {
  return word.find_first_of("=@") != word.npos || word.find("://") != word.npos;
}

bool is_list(const OptionSpec& spec) {
  return std::holds_alternative<std::vector<std::string> catalog::TableFilter::*>(spec.field) ||
         std::holds_alternative<std::vector<std::string> Options::*>(spec.field);
}

namespace {

// What cannot be meant for a database that is thrown away or kept as a whole.
void validate_rebuild(const Options& options) {
  if (options.list && options.rollback)
    throw usage("--list and --rollback contradict each other", "Choose one of the two.");
  if (options.schema == "none")
    throw usage("--schema none: a rebuild makes its database itself", "Leave it out, or use `pgbaton clone`.");
  if (!options.publication.empty() && options.mode == "follow")
    throw usage("--publication with --mode follow: two generations would share it",
                "Leave --publication out, or use --mode once.");
}

void validate_mode(const Options& options) {
  const bool for_switchover = options.mode == "full" || options.mode == "read-only" || options.mode == "undo";
  if (options.command == "rebuild" && for_switchover)
    throw usage(fmt::format("--mode {} is one of switchover", options.mode), "Write --mode once or --mode follow.");
  if (options.command != "switchover") return;
  if (options.mode == "follow" || options.mode == "once")
    throw usage(fmt::format("--mode {} is one of rebuild", options.mode), "Leave --mode out.");
  if (options.mode == "undo" && (options.dry_run || options.rollback))
    throw usage("--undo stands alone", "Choose one of --undo, --dry-run and --rollback.");
}

}  // namespace

void validate(const Options& options) {
  try {
    ReplicaNames names(options.name);  // throws for a bad name
  } catch (Error& error) {
    add_origin(error, options, "name");
    throw;
  }
  log::parse_level(options.log_level);
  retention_options(options);
  refuse_unfinished(options);
  if (options.command == "rebuild") validate_rebuild(options);
  validate_mode(options);
  if (!options.where.empty()) catalog::require_condition(options.where, "--where");
  for (const auto& choice : options.filter.choices)
    if (!choice.where.empty()) catalog::require_condition(choice.where, "tables: where of " + choice.name);
  if (options.add && !options.where.empty())
    throw usage("--add and --where contradict each other: a new table is copied as a whole", "Choose one of the two.");
  if (options.add && !options.filter.choices.empty())
    throw usage("--add takes in whole tables: `tables` in the configuration has no meaning for it",
                "Leave `tables` out, or clone the new tables as a replica of their own (--name).");
  if (options.command == "clone") {
    if (options.follow && !options.until.empty())
      throw usage("--follow and --until contradict each other: the one stays, the other ends",
                  "Choose one of the two.");
    if (options.dry_run && options.restart)
      throw usage("--dry-run and --restart contradict each other", "Choose one of the two.");
  }
  if (options.command == "follow" && !options.until_lsn.empty()) {
    if (!options.until.empty()) throw usage("--until and --until-lsn contradict each other", "Choose one of the two.");
    require_lsn(options.until_lsn, "--until-lsn");
  }
}

std::string closest(std::string_view word, const std::vector<std::string_view>& candidates) {
  auto distance = [&](std::string_view other) {
    std::vector<std::size_t> row(other.size() + 1);
    std::iota(row.begin(), row.end(), 0u);
    for (std::size_t i = 0; i < word.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i + 1;
      for (std::size_t j = 0; j < other.size(); ++j) {
        std::size_t substituted = diagonal + (word[i] == other[j] ? 0 : 1);
        diagonal = row[j + 1];
        row[j + 1] = std::min({substituted, row[j] + 1, diagonal + 1});
      }
    }
    return row.back();
  };
  std::string_view best;
  // A third of the word may be wrong; beyond that a guess would mislead. Of a short word only letters that changed
  // places.
  constexpr std::size_t kShort = 4;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  const auto letters = [](std::string_view text) { return std::multiset<char>(text.begin(), text.end()); };
  for (std::string_view candidate : candidates) {
    const std::size_t d = distance(candidate);
    if (d >= best_distance || (d > 1 && word.size() <= kShort && letters(word) != letters(candidate))) continue;
    best = candidate;
    best_distance = d;
  }
  return std::string(best);
}

}  // namespace pgbaton::app
