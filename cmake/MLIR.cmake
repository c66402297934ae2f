# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Finds LLVM and MLIR 22 and defines the two helpers that every compiler folder uses.
# Only the two shared libraries are ever linked: mixing them with the static archives would register
# every dialect twice.
# MLIR finds a trait's TypeID by the text that the compiler gives its type. Clang and GCC write that
# text differently, and Debian's libMLIR is built by Clang: a compiler built by GCC links, and then does
# not recognise upstream traits (a module is no symbol table). The runtime has no such tie.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "the compiler must be built with clang, as Debian's libMLIR is; "
                      "with ${CMAKE_CXX_COMPILER_ID} build the runtime: -DTRAINC_BUILD_COMPILER=OFF")
endif()

list(APPEND CMAKE_PREFIX_PATH /usr/lib/llvm-22)
find_package(LLVM 22.1 REQUIRED CONFIG)
find_package(MLIR 22.1 REQUIRED CONFIG)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# TableGen takes its include path from the directory.
include_directories(${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR})
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})

# Dialect-agreement checks live in headers under !NDEBUG and must match the release libraries.
separate_arguments(TRAINC_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")

# Generated .inc files are found as "dialects/Train/....inc"; sources as "dialects/..." and "trainc/...".
add_library(trainc_compiler_options INTERFACE)
target_include_directories(trainc_compiler_options INTERFACE
  ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR}/include)
target_include_directories(trainc_compiler_options SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_compile_definitions(trainc_compiler_options INTERFACE ${TRAINC_LLVM_DEFINITIONS})
target_compile_options(trainc_compiler_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions> $<$<CONFIG:Release>:-O1>)
# TRAINC_STATIC_LLVM of an executable: it brings the archives itself.
define_property(TARGET PROPERTY TRAINC_STATIC_LLVM BRIEF_DOCS "links LLVM and MLIR statically" FULL_DOCS "without their shared libraries")
target_link_libraries(trainc_compiler_options INTERFACE
  $<$<NOT:$<BOOL:$<TARGET_PROPERTY:TRAINC_STATIC_LLVM>>>:MLIR> $<$<NOT:$<BOOL:$<TARGET_PROPERTY:TRAINC_STATIC_LLVM>>>:LLVM>)

# Half or more of what compiling a file takes is reading MLIR's headers. A ccache that is set up to
# share objects among checkouts (base_dir) finds none where they are precompiled.
set(shared)
if(TRAINC_CCACHE)
  execute_process(COMMAND ${TRAINC_CCACHE} --get-config base_dir OUTPUT_VARIABLE shared OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(shared)
  set(precompile OFF)
else()
  set(precompile ON)
endif()
option(TRAINC_PRECOMPILE "Precompile the headers of LLVM and MLIR" ${precompile})
set(TRAINC_PRECOMPILED_HEADERS
  <mlir/Dialect/Arith/IR/Arith.h> <mlir/Dialect/Func/IR/FuncOps.h> <mlir/Dialect/Math/IR/Math.h>
  <mlir/IR/Builders.h> <mlir/IR/BuiltinOps.h> <mlir/IR/IRMapping.h> <mlir/IR/Matchers.h>
  <mlir/IR/OpImplementation.h> <mlir/IR/PatternMatch.h> <mlir/IR/Verifier.h>
  <mlir/Interfaces/InferTypeOpInterface.h> <mlir/Interfaces/SideEffectInterfaces.h>
  <mlir/Pass/Pass.h> <mlir/Pass/PassManager.h> <mlir/Transforms/GreedyPatternRewriteDriver.h>
  <llvm/ADT/STLExtras.h> <llvm/ADT/SetVector.h> <llvm/Support/FormatVariadic.h> <llvm/Support/JSON.h>
  <llvm/Support/raw_ostream.h>
  <functional> <map> <memory> <optional> <set> <string> <vector>)

# trainc_precompiled(NAME HEADERS...): precompiled headers for targets to reuse.
function(trainc_precompiled name)
  set(source ${PROJECT_BINARY_DIR}/${name}.cpp)
  file(WRITE ${source}.new "")
  file(COPY_FILE ${source}.new ${source} ONLY_IF_DIFFERENT)
  add_library(${name} STATIC ${source})
  target_link_libraries(${name} PUBLIC trainc_compiler_options)
  target_precompile_headers(${name} PRIVATE ${ARGN})
endfunction()

# A change of the train dialect is a change of nearly every file: its headers are read once for all of
# them. Those that do not include it are not to be compiled again for it.
if(TRAINC_PRECOMPILE)
  trainc_precompiled(trainc_precompiled_mlir ${TRAINC_PRECOMPILED_HEADERS})
  trainc_precompiled(trainc_precompiled_train ${TRAINC_PRECOMPILED_HEADERS}
    <dialects/Train/TrainDialect.h> <dialects/Train/TrainBuilder.h>)
  add_dependencies(trainc_precompiled_train TrainDialectIncGen)
endif()
function(trainc_precompile target headers)
  if(TRAINC_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM trainc_precompiled_${headers})
  endif()
endfunction()

# trainc_library(NAME SOURCES... [WITHOUT_TRAIN] [LINK libs...] [DEPENDS targets...]): a static library of
# the compiler. WITHOUT_TRAIN: most of its files do not include the train dialect.
function(trainc_library name)
  cmake_parse_arguments(ARG "WITHOUT_TRAIN" "" "LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC trainc_compiler_options ${ARG_LINK})
  if(ARG_WITHOUT_TRAIN)
    trainc_precompile(${name} mlir)
  else()
    trainc_precompile(${name} train)
  endif()
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# trainc_tablegen(FILE.td OUT GENERATOR [args...] ...) is plain mlir_tablegen; headers of a folder are
# collected with add_public_tablegen_target there.
set(MLIR_BINARY_DIR ${PROJECT_BINARY_DIR})
