# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Plug-ins in C++ (docs/plugins.md): the headers that they are built with, the symbols that they find in the programs
# which load them, and the number by which both know that they fit.
set(TRAINC_PLUGIN_HEADERS
  dialects/ONNX/ONNXDialect.h
  dialects/Train/Dims.h dialects/Train/Interfaces.h dialects/Train/TrainBuilder.h dialects/Train/TrainDetail.h
  dialects/Train/TrainDialect.h dialects/Train/TrainScalar.h dialects/Train/TrainVJP.h
  dialects/Train/TrainBase.td dialects/Train/TrainDialect.td dialects/Train/TrainInterfaces.td
  include/trainc/Conversion/ONNXToTrain/Bounds.h include/trainc/Conversion/ONNXToTrain/Content.h
  include/trainc/Conversion/ONNXToTrain/NodeContext.h
  include/trainc/Plugin/PluginRegistry.h)
# Made of .td files; what is in those is in them.
set(TRAINC_PLUGIN_GENERATED
  dialects/ONNX/ONNXDialect.h.inc dialects/ONNX/ONNXTypes.h.inc dialects/ONNX/ONNXAttributes.h.inc dialects/ONNX/ONNXOps.h.inc
  dialects/Train/TrainDialect.h.inc dialects/Train/TrainEnums.h.inc dialects/Train/TrainAttrs.h.inc
  dialects/Train/TrainInterfaces.h.inc dialects/Train/TrainOps.h.inc
  trainc/Plugin/Abi.h)

# The hash of everything that decides on the layout of what both sides share.
file(GLOB described CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} dialects/ONNX/*.td dialects/Train/*.td)
set(hashed ${TRAINC_PLUGIN_HEADERS} ${described})
list(REMOVE_DUPLICATES hashed)
set(inputs ${hashed})
list(TRANSFORM inputs PREPEND ${PROJECT_SOURCE_DIR}/)
set(abi ${PROJECT_BINARY_DIR}/trainc/Plugin/Abi.h)
add_custom_command(OUTPUT ${abi}
  COMMAND ${CMAKE_COMMAND} -D "FILES=${hashed}" -D SOURCE=${PROJECT_SOURCE_DIR} -D OUTPUT=${abi}
          -D "ABI=trainc ${PROJECT_VERSION}, LLVM ${LLVM_VERSION_MAJOR}.${LLVM_VERSION_MINOR}"
          -P ${PROJECT_SOURCE_DIR}/cmake/PluginAbi.cmake
  DEPENDS ${inputs} ${PROJECT_SOURCE_DIR}/cmake/PluginAbi.cmake VERBATIM)
add_custom_target(trainc_plugin_abi DEPENDS ${abi})

# trainc_seen_by_plugins(LIBRARY): its symbols may be those of a program's interface.
function(trainc_seen_by_plugins library)
  target_compile_options(${library} PRIVATE -fvisibility=default)
endfunction()

# trainc_hosts_plugins(PROGRAM): plug-ins that it loads find what plugin-symbols.list names in it.
function(trainc_hosts_plugins program)
  set(symbols ${PROJECT_SOURCE_DIR}/cmake/plugin-symbols.list)
  target_link_options(${program} PRIVATE "LINKER:--export-dynamic-symbol-list=${symbols}")
  set_target_properties(${program} PROPERTIES LINK_DEPENDS ${symbols})
endfunction()

# What is installed: include/trainc, and traincConfig.cmake for find_package(trainc).
include(GNUInstallDirs)
foreach(header ${TRAINC_PLUGIN_HEADERS})
  get_filename_component(folder ${header} DIRECTORY)
  string(REGEX REPLACE "^include/" "" folder ${folder})
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/trainc/${folder} COMPONENT trainc-dev)
endforeach()
foreach(header ${TRAINC_PLUGIN_GENERATED})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_BINARY_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/trainc/${folder} COMPONENT trainc-dev)
endforeach()
set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/trainc)
file(RELATIVE_PATH to_include /${config_folder} /${CMAKE_INSTALL_INCLUDEDIR}/trainc)
configure_file(cmake/traincConfig.cmake.in traincConfig.cmake @ONLY)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/traincConfigVersion.cmake
                                 VERSION ${PROJECT_VERSION} COMPATIBILITY ExactVersion)
install(FILES ${PROJECT_BINARY_DIR}/traincConfig.cmake ${PROJECT_BINARY_DIR}/traincConfigVersion.cmake
        DESTINATION ${config_folder} COMPONENT trainc-dev)
