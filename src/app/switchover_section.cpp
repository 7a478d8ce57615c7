// Section `switchover:` of the file: one row per setting.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>
#include <pgbaton/app/options.hpp>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/size.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <ranges>
#include <set>
#include <variant>

#include "cmd_switchover.hpp"

namespace pgbaton::app {

namespace {

constexpr std::string_view kExampleFile = "pgbaton.example.yaml (in scripts/, or share/doc/pgbaton)";

using switchover::Settings;
using Member = std::variant<bool Settings::*, std::string Settings::*, std::int64_t Settings::*,
                            std::uint64_t Settings::*, Milliseconds Settings::*, std::vector<std::string> Settings::*,
                            std::map<std::string, std::string> Settings::*>;

struct Setting {
  SettingSpec spec;
  Member member;
};

const std::array kSettings = {
    Setting{{"transaction-wait", "", "how long open write transactions are waited for before the fence; default 10s"},
            &Settings::transaction_wait},
    Setting{{"long-transactions", "terminate|fail",
             "those that are open then: terminate (end their sessions, default), or fail (give up)"},
            &Settings::long_transactions},
    Setting{{"catch-up-timeout", "", "for the target to reach the barrier; default 30s"}, &Settings::catch_up_timeout},
    Setting{{"deadline", "", "from the fence to the flip: then the watchdog opens the source again; default 60s"},
            &Settings::deadline},
    Setting{{"gap", "", "sequences of the target go so many increments beyond the source's; default 100000"},
            &Settings::sequence_gap},
    Setting{{"verify", "off|counts|full",
             "before the flip: off, counts (of rows, default), or full: all rows, while the writers wait"},
            &Settings::verification},
    Setting{{"verify-limit", "",
             "counts: how long writers may wait for them; smallest tables first, all are counted live before; default "
             "300ms"},
            &Settings::verify_limit},
    Setting{{"max-lag", "", "not while the target is more WAL behind; default 16MB"}, &Settings::max_lag},
    Setting{
        {"allow-left-behind", "",
         "tables that the replica lacks or carries in part (no UPDATE and DELETE of those without identity), and that "
         "may be so: a list, \"*.*\" for all; any other such table is refused"},
        &Settings::allow_left_behind},
    Setting{{"analyze", "", "true: ANALYZE the target before the fence"}, &Settings::analyze},
    Setting{{"prewarm", "", "relations of the target to load by pg_prewarm before the fence, where that is; a list"},
            &Settings::prewarm},
    Setting{{"way-back", "no|auto|yes",
             "a stream back to the former source: yes, no, or auto (where it is possible, default)"},
            &Settings::way_back},
    Setting{{"hook-before", "", "a command, run by sh before the fence"}, &Settings::hook_before},
    Setting{{"hook-fenced", "", "a command, run by sh when the writers are fenced"}, &Settings::hook_fenced},
    Setting{{"hook-flip", "", "a command, run by sh directly after the flip: send the application to the target"},
            &Settings::hook_flip},
    Setting{{"hook-after", "", "a command, run by sh at the end"}, &Settings::hook_after},
    Setting{
        {"hooks", "",
         "the same at each step: a map of step and command, which is run when the step has ended; steps: preflight, "
         "prepare, way-back, readers, fence, barrier, sequences, verify, finish, send, turn, clean-up, and given-up"},
        &Settings::hooks},
    Setting{{"hook-readers", "",
             "a command, run by sh before the fence (or by --mode read-only alone): send readers to where "
             "PGBATON_READERS says, source or target"},
            &Settings::hook_readers},
    Setting{{"pgbouncer-readers", "", "conninfo of the admin console of a PgBouncer that only readers use"},
            &Settings::pgbouncer_readers},
    Setting{{"pgbouncer-readers-conffile", "", "its configuration that leads to the target"},
            &Settings::pgbouncer_readers_conffile},
    Setting{{"pgbouncer-readers-conffile-back", "", "its configuration that leads to the source"},
            &Settings::pgbouncer_readers_conffile_back},
    Setting{{"pgbouncer", "", "conninfo of the admin console of a PgBouncer; RELOAD at the flip"},
            &Settings::pgbouncer},
    Setting{{"pgbouncer-conffile", "", "its configuration from the flip on: SET conffile, before RELOAD"},
            &Settings::pgbouncer_conffile},
    Setting{{"pgbouncer-conffile-back", "", "the same for --rollback: the configuration that leads to the source"},
            &Settings::pgbouncer_conffile_back},
    Setting{
        {"pgbouncer-pause", "", "PAUSE this database before the fence, RESUME after the flip, or when it is given up"},
        &Settings::pgbouncer_pause},
};

// The value is in no message: it may hold a password.
struct Assign {
  Settings& settings;
  const SettingSpec& spec;
  const std::string& value;
  const std::string& origin;

  Error wrong(const std::string& what) const {
    return Error(ErrorKind::usage, fmt::format("{}: {}", origin, what))
        .hint(fmt::format("{} explains every setting.", kExampleFile));
  }
  void operator()(bool Settings::*member) const {
    if (value != "true" && value != "false") throw wrong("neither true nor false");
    settings.*member = value == "true";
  }
  void operator()(std::string Settings::*member) const {
    const auto choices = "|" + std::string(spec.choices) + "|";
    if (!spec.choices.empty() && choices.find("|" + value + "|") == choices.npos)
      throw wrong(fmt::format("not one of: {}", spec.choices));
    settings.*member = value;
  }
  void operator()(std::int64_t Settings::*member) const {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < 0) throw wrong("not a whole number");
    settings.*member = number;
  }
  void operator()(std::uint64_t Settings::*member) const { settings.*member = parse_size(value, origin); }
  void operator()(Milliseconds Settings::*member) const { settings.*member = parse_duration(value, origin); }
  void operator()(std::vector<std::string> Settings::*member) const { (settings.*member).push_back(value); }
  void operator()(std::map<std::string, std::string> Settings::*) const { throw wrong("takes a map"); }
};

std::string place(const YAML::Node& node, const std::string& path) {
  return fmt::format("{}:{}", path, node.Mark().line + 1);
}

Error wrong(const YAML::Node& node, const std::string& path, const std::string& what, const std::string& hint) {
  return Error(ErrorKind::usage, fmt::format("{}: {}", place(node, path), what)).hint(hint);
}

const Setting& find_setting(const YAML::Node& key, const std::string& path) {
  if (!key.IsScalar()) throw wrong(key, path, "a name is expected", "Write \"name: value\".");
  auto name = key.Scalar();
  std::ranges::replace(name, '_', '-');
  std::vector<std::string_view> names;
  for (const auto& setting : kSettings) {
    if (setting.spec.name == name) return setting;
    names.push_back(setting.spec.name);
  }
  const auto near = closest(name, names);
  throw wrong(key, path, looks_like_conninfo(name) ? "no such setting" : fmt::format("no setting \"{}\"", name),
              near.empty() ? fmt::format("{} lists them.", kExampleFile) : fmt::format("Did you mean {}?", near));
}

void read_hooks(std::map<std::string, std::string>& hooks, const YAML::Node& value, const std::string& path) {
  if (!value.IsMap()) throw wrong(value, path, "hooks takes a map", "Write \"step: command\" lines below it.");
  for (const auto& entry : value) {
    const auto step = entry.first.IsScalar() ? entry.first.Scalar() : std::string();
    if (std::ranges::find(switchover::kHookSteps, step) == switchover::kHookSteps.end())
      throw wrong(entry.first, path, fmt::format("hooks: there is no hook at \"{}\"", step),
                  fmt::format("Hooks are at: {}.", fmt::join(switchover::kHookSteps, ", ")));
    if (!entry.second.IsScalar()) throw wrong(entry.second, path, "hooks takes a command for each step", "");
    if (!hooks.emplace(step, entry.second.Scalar()).second)
      throw wrong(entry.first, path, fmt::format("hooks: {} stands here for the second time", step),
                  "Write both commands into one.");
  }
}

void read_setting(Settings& settings, const Setting& setting, const YAML::Node& value, const std::string& path) {
  if (const auto* hooks = std::get_if<std::map<std::string, std::string> Settings::*>(&setting.member))
    return value.IsNull() ? void() : read_hooks(settings.**hooks, value, path);
  const bool list = std::holds_alternative<std::vector<std::string> Settings::*>(setting.member);
  const auto origin = fmt::format("{}: {}", place(value, path), setting.spec.name);
  const auto read = [&](const YAML::Node& node) {
    if (!node.IsScalar()) throw wrong(value, path, fmt::format("{} takes plain values", setting.spec.name), "");
    std::visit(Assign{settings, setting.spec, node.Scalar(), origin}, setting.member);
  };
  if (list && value.IsSequence()) {
    for (const auto& item : value) read(item);
  } else if (!value.IsNull()) {
    read(value);
  }
}

}  // namespace

std::span<const SettingSpec> switchover_settings() {
  static const auto kSpecs = [] {
    std::array<SettingSpec, kSettings.size()> all{};
    std::ranges::transform(kSettings, all.begin(), &Setting::spec);
    return all;
  }();
  return kSpecs;
}

Settings read_switchover_section(const YAML::Node& section, const std::string& path) {
  Settings settings;
  if (section.IsNull()) return settings;
  if (!section.IsMap())
    throw wrong(section, path, "switchover takes a map of settings", "Write \"name: value\" lines below it.");
  std::set<std::string_view> seen;
  for (const auto& entry : section) {
    const auto& setting = find_setting(entry.first, path);
    if (!seen.insert(setting.spec.name).second)
      throw wrong(entry.first, path, fmt::format("{} stands here for the second time", setting.spec.name),
                  "Remove one of the two.");
    read_setting(settings, setting, entry.second, path);
  }
  return settings;
}

// The file as a whole was read before, with its errors told.
Settings load_switchover_section(const std::string& path) {
  if (path.empty()) return {};
  const auto root = YAML::LoadFile(path);
  for (const auto& entry : root)
    if (entry.first.IsScalar() && entry.first.Scalar() == "switchover")
      return read_switchover_section(entry.second, path);
  return {};
}

}  // namespace pgbaton::app
