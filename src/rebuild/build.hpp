// Everything between an empty row of the registry and a database that may serve.
#pragma once
#include "registry.hpp"

namespace pgbaton::rebuild {

// What lists all blockers.
inline constexpr std::string_view kCheckCommand = "pgbaton check --rebuild";

// What keeps the role from making and renaming databases: what a swap alone needs, too.
std::vector<snapshot::Finding> check_place(const Options& options);

// When it returns nobody of this process is connected to the generation's database any more.
void build(Registry& registry, Generation& generation, const std::optional<Generation>& live, const Options& options,
           Summary& summary, copy::CopyProgress& progress, const std::stop_token& stop);

}  // namespace pgbaton::rebuild
