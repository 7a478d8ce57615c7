# Manual page and completions, made from the tables of --help by a program of the build; and the Debian package:
#   cpack -G DEB --config build/CPackConfig.cmake
add_executable(pgbaton_manual src/app/manual_main.cpp)
target_link_libraries(pgbaton_manual PRIVATE pgbaton)
set(manual_dir ${PROJECT_BINARY_DIR}/manual)
foreach(kind man bash zsh fish)
  add_custom_command(OUTPUT ${manual_dir}/pgbaton.${kind}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${manual_dir}
    COMMAND pgbaton_manual ${kind} > ${manual_dir}/pgbaton.${kind} DEPENDS pgbaton_manual VERBATIM)
  list(APPEND manual_files ${manual_dir}/pgbaton.${kind})
endforeach()
add_custom_command(OUTPUT ${manual_dir}/pgbaton.1.gz
  COMMAND gzip -9nc ${manual_dir}/pgbaton.man > ${manual_dir}/pgbaton.1.gz DEPENDS ${manual_dir}/pgbaton.man VERBATIM)
add_custom_target(pgbaton_manual_files ALL DEPENDS ${manual_files} ${manual_dir}/pgbaton.1.gz)

install(FILES ${manual_dir}/pgbaton.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${manual_dir}/pgbaton.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME pgbaton)
install(FILES ${manual_dir}/pgbaton.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/scripts/monitoring DESTINATION ${CMAKE_INSTALL_DOCDIR})
# What stands in the binary comes with its licence.
install(FILES src/app/web/uPlot.LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# zsh looks in another folder for what packages bring than for what an administrator installs.
install(CODE "
  set(zsh_folder site-functions)
  if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
    set(zsh_folder vendor-completions)
  endif()
  file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/share/zsh/\${zsh_folder}\" TYPE FILE
    RENAME _pgbaton FILES \"${manual_dir}/pgbaton.zsh\")")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME pgbaton)
set(CPACK_PACKAGE_VENDOR pgbaton)
set(CPACK_PACKAGE_CONTACT "pgbaton developers <pgbaton@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "hand a PostgreSQL database over to a live stream of changes")
set(CPACK_PACKAGE_DESCRIPTION
  "pgbaton copies schema and rows of a PostgreSQL database to another server\nwhile the application keeps writing, goes on with every change committed\nsince, and can be killed at any moment and started again.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION database)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# pg_dump and pg_restore; of the source's major or later, which only the user knows.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS postgresql-client)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
  WORLD_READ WORLD_EXECUTE)
include(CPack)
