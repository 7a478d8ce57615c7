// The PostgreSQL client programs on this machine.
#pragma once
#include <string>
#include <vector>

namespace pgbaton::copy {

struct Tool {
  std::string path;
  std::string version_text;  // "15.20"
  int major = 0;
};

// Every pg_dump of PATH and of the packages' folders, each once.
std::vector<Tool> installed_pg_dumps();
// pg_restore beside a pg_dump.
std::string pg_restore_beside(const std::string& pg_dump);

}  // namespace pgbaton::copy
