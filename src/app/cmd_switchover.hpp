// switchover: its command, and section `switchover:` of the file.
#pragma once
#include <pgbaton/switchover/settings.hpp>

#include <span>
#include <string>
#include <string_view>

namespace YAML {
class Node;
}

namespace pgbaton::app {

struct Context;

int run_switchover(Context& context);

// The keys of the section, for help; none of them is a flag.
struct SettingSpec {
  std::string_view name, choices, help;  // choices "a|b"; "" for free text
};
std::span<const SettingSpec> switchover_settings();

// Throws Error(usage) that names file and line.
switchover::Settings read_switchover_section(const YAML::Node& section, const std::string& path);
// The section of this file; the defaults without a file (""), or where it has none.
switchover::Settings load_switchover_section(const std::string& path);

}  // namespace pgbaton::app
