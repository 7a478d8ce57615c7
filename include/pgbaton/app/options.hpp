// The command line, the environment and the YAML file become one Options. All three are read through one table of
// options (option_table.cpp), so a name, its check and its help stand in exactly one place.
#pragma once
#include <pgbaton/app/config.hpp>
#include <pgbaton/base/error.hpp>
#include <pgbaton/stream/stream.hpp>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace pgbaton::app {

// Where an option is stored. The type of the field decides how its text is parsed: bool is a flag, uint64 a size,
// Milliseconds a duration, a vector a list that may be given more than once.
using Field = std::variant<bool Options::*, std::string Options::*, int Options::*, std::int64_t Options::*,
                           std::uint64_t Options::*, Milliseconds Options::*, std::optional<Milliseconds> Options::*,
                           std::vector<std::string> catalog::TableFilter::*, std::vector<std::string> Options::*>;

// Commands an option has an effect on, as bits.
using Use = unsigned;
inline constexpr Use kCheck = 1, kClone = 2, kFollow = 4, kStatus = 8, kWait = 16, kSequences = 32, kFinish = 64,
                     kDrop = 128, kVerify = 256, kResync = 512, kRebuild = 1024, kSwitchover = 2048, kEverywhere = 4095;

struct OptionSpec {
  std::string_view name;   // "slot-wait"; with _ for - in a file
  std::string_view value;  // placeholder in help; "" for a flag
  Field field;
  unsigned used_by;          // Use bits; elsewhere it has no effect
  bool common;               // accepted with every command; else an error where it has no effect
  std::string_view choices;  // "keep|drop"; "" for free text
  std::string_view help;
  std::int64_t minimum = 0, maximum = 1'000'000'000'000;  // of numbers
};
bool is_list(const OptionSpec& spec);
// A word that may hold a password, and is not repeated in a message.
bool looks_like_conninfo(std::string_view word);
std::span<const OptionSpec> option_table();
const OptionSpec* find_option(std::string_view name);  // '_' and '-' are the same

// Parses `values` (the last one counts, except for lists) into the option's field. `origin` is named in errors:
// "--jobs" or "jobs (pgbaton.yaml:7)". Throws Error(usage).
void assign(const OptionSpec& spec, Options& options, const std::vector<std::string>& values,
            const std::string& origin);

struct Invocation {
  Options options;
  bool help = false, version = false;  // then `options` is not checked any further
};
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

// `arguments` without the program's name. Throws Error(usage); no message holds a password.
Invocation parse_invocation(const std::vector<std::string>& arguments, const Environment& environment);
// The file alone, over `options`.
void load_config_file(const std::string& path, Options& options);
// Puts file and line in front of the message when the option `name` stands in the file; changes nothing otherwise.
void add_origin(Error& error, const Options& options, std::string_view name);
// The same for a message that begins with an option ("--exclude-table: …"): modules below know no file.
void add_origin(Error& error, const Options& options);
// What no single option can know: conflicts between them, and values that a later version will bring. Throws
// Error(usage).
void validate(const Options& options);

// What --tombstones and --tombstone-retention say. Throws Error(usage).
stream::RetentionOptions retention_options(const Options& options);

// The nearest of `candidates` by edit distance, if near enough to be meant; else "".
std::string closest(std::string_view word, const std::vector<std::string_view>& candidates);

std::string help_text();                          // of the whole
std::string help_text(std::string_view command);  // of one command

}  // namespace pgbaton::app
