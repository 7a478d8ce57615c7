// The archive's way: snapshot → pg_dump -Fc → pg_restore as a script, once per section → entries with SQL → run by us.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <pgbaton/base/log.hpp>
#include <pgbaton/copy/schema.hpp>
#include <pgbaton/source/slot.hpp>
#include <set>

#include <pgbaton/copy/process.hpp>
#include "archive_objects.hpp"
#include "restore.hpp"
#include "sql_script.hpp"
#include "tools.hpp"

namespace pgbaton::copy {

struct SchemaArchive::Impl {
  std::vector<TocEntry> entries;
};

namespace {

// A file of mode 0600 that is gone when the object is.
class TemporaryFile {
 public:
  TemporaryFile() {
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string(folder == nullptr || *folder == '\0' ? "/tmp" : folder) + "/pgbaton-schema-XXXXXX";
    const int fd = ::mkstemp(path_.data());
    if (fd < 0)
      throw Error(ErrorKind::failed, fmt::format("making the file {}: {}", path_, std::strerror(errno)))
          .hint("Point TMPDIR at a folder that can be written to.");
    ::close(fd);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void leave_out(const SchemaOptions& options, std::vector<std::string>& arguments) {
  if (!options.owners) arguments.emplace_back("--no-owner");
  if (!options.privileges) arguments.emplace_back("--no-privileges");
  if (!options.comments) arguments.emplace_back("--no-comments");
  if (!options.labels) arguments.emplace_back("--no-security-labels");
  if (!options.tablespaces) arguments.emplace_back("--no-tablespaces");
}

std::vector<std::string> dump_arguments(const pg::Endpoint& source, const std::string& conninfo,
                                        const std::string& snapshot_id, const SchemaOptions& options,
                                        const std::string& file) {
  std::vector<std::string> arguments{"--format=custom",
                                     "--schema-only",
                                     "--no-password",
                                     "--no-publications",
                                     "--no-subscriptions",
                                     "--snapshot=" + snapshot_id,
                                     "--encoding=" + source.client_encoding,
                                     "--exclude-schema=" + std::string(kStateSchema),
                                     "--file=" + file,
                                     "--dbname=" + conninfo};
  leave_out(options, arguments);
  for (const auto& pattern : options.excluded_schemas) arguments.push_back("--exclude-schema=" + pattern);
  for (const auto& table : options.only_tables) arguments.push_back("--table=" + table.quoted());
  // In double quotes every character of a pattern stands for itself.
  for (const auto& table : options.excluded_tables) arguments.push_back("--exclude-table=" + table.quoted());
  return arguments;
}

[[noreturn]] void throw_tool_error(const std::string& program, const Outcome& outcome) {
  std::string_view text = outcome.errors;
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  Error error(ErrorKind::failed, fmt::format("{} ended with exit code {}: {}", program, outcome.exit_code, text));
  error.side(Side::source);
  if (text.find("snapshot") != text.npos)
    throw error.action(Action::retry).hint("The session that held the snapshot has ended; run the same command again.");
  if (text.find("permission denied") != text.npos)
    throw error.hint("Give the source role SELECT on the tables that are named, or exclude them.");
  throw error.hint("Run the command that is named by hand to see more; --pg-dump names another version.");
}

Outcome run_tool(const Command& command, const std::stop_token& stop) {
  auto outcome = run_command(command, stop);
  if (outcome.exit_code != 0) throw_tool_error(command.program, outcome);
  return outcome;
}

// The number of pg_restore's own choice: entries of one section as SQL.
std::vector<TocEntry> read_section(const std::string& pg_restore, const SchemaOptions& options, const std::string& file,
                                   Section section, const std::stop_token& stop) {
  std::vector<std::string> arguments{"--verbose", "--file=-",
                                     section == Section::pre_data ? "--section=pre-data" : "--section=post-data"};
  leave_out(options, arguments);
  arguments.push_back(file);
  return split_script(run_tool({pg_restore, arguments, {}}, stop).output, section);
}

}  // namespace

SchemaArchive SchemaArchive::dump(const pg::Endpoint& source, const std::string& snapshot_id,
                                  const SchemaOptions& options, const std::stop_token& stop) {
  auto worker = source::open_snapshot_worker(source, snapshot_id, "schema");
  const auto pg_dump = find_pg_dump(options.pg_dump, worker.server_version());
  const auto pg_restore = pg_restore_beside(pg_dump);
  const auto child = pg::child_connection(source, "pg_dump");
  const TemporaryFile file;
  log::debug("dumping the schema with {}", pg_dump);
  run_tool({pg_dump, dump_arguments(source, child.conninfo, snapshot_id, options, file.path()), child.environment},
           stop);

  SchemaArchive archive;
  archive.impl_ = std::make_shared<Impl>();
  auto& entries = archive.impl_->entries;
  entries = read_section(pg_restore, options, file.path(), Section::pre_data, stop);
  auto rest = read_section(pg_restore, options, file.path(), Section::post_data, stop);
  std::ranges::move(rest, std::back_inserter(entries));
  resolve_objects(worker, options.excluded_tables, entries);
  return archive;
}

const std::vector<TocEntry>& SchemaArchive::entries() const {
  return impl_->entries;
}

void SchemaArchive::restore_pre_data(const pg::Endpoint& target, const std::stop_token& stop,
                                     const RestoreRecord& record) const {
  restore_definitions(target, impl_->entries, stop, record);
}

}  // namespace pgbaton::copy
