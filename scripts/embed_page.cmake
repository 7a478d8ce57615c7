# Puts the parts of the page of --http into one document and makes a constant of it. Called by CMakeLists.txt with
# -DOUTPUT and -DFOLDER. uPlot is version 1.6.32 of the npm package, as published, under its own licence (beside it).
file(SHA256 ${FOLDER}/uPlot.iife.min.js sum)
if(NOT sum STREQUAL "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f")
  message(FATAL_ERROR "src/app/web/uPlot.iife.min.js is not the one of uPlot 1.6.32")
endif()
file(READ ${FOLDER}/index.html page)
foreach(part UPLOT_CSS:uPlot.min.css STYLE:style.css UPLOT_JS:uPlot.iife.min.js FORMAT_JS:format.js PAGE_JS:page.js)
  string(REPLACE ":" ";" part "${part}")
  list(GET part 0 name)
  list(GET part 1 file)
  file(READ ${FOLDER}/${file} text)
  string(REPLACE "@${name}@" "${text}" page "${page}")
endforeach()
if(page MATCHES "\\)~page~\"")
  message(FATAL_ERROR "the page contains the end of its own literal")
endif()
file(WRITE ${OUTPUT} "// Generated from src/app/web; do not edit.\n#pragma once\n#include <string_view>\n\nnamespace pgbaton::app {\n\
inline constexpr std::string_view kPage = R\"~page~(${page})~page~\";\n}  // namespace pgbaton::app\n")
