# Turns sql/*.sql into constants. Called by CMakeLists.txt with -DOUTPUT and -DFILES.
set(text "// Generated from sql/*.sql; do not edit.\n#pragma once\n#include <string_view>\n\nnamespace pgbaton::sql {\n")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} body)
  string(APPEND text "inline constexpr std::string_view ${name} = R\"~sql~(${body})~sql~\";\n")
endforeach()
string(APPEND text "}  // namespace pgbaton::sql\n")
file(WRITE ${OUTPUT} "${text}")
