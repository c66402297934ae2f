# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The lit suite: .mlir and .test files anywhere under test/; unit/ has its own suite.
import glob
import os
import shutil
import sys

import lit.formats

config.name = "trainc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "models", "unit", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)

llvm_tools = config.llvm_tools_dir or "/usr/lib/llvm-22/bin"
binaries = os.path.join(config.build_dir, "bin")
config.environment["PATH"] = os.pathsep.join([binaries, llvm_tools, config.environment["PATH"]])
for variable in ("CCACHE_DIR", "CUDA_HOME", "HOME", "TMPDIR"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]

# Many tests compile a model in several ways: kernels that were compiled once are not compiled again.
config.environment["TRAINC_CACHE"] = os.path.join(config.test_exec_root, "kernel-cache")

# The project's environment has numpy and onnx; without it the tests that need them are unsupported.
python = os.path.join(config.source_dir, ".venv", "bin", "python3")
if os.path.exists(python):
    config.available_features.add("numpy")
    if glob.glob(os.path.join(config.source_dir, ".venv/lib/python3*/site-packages/onnx")):
        config.available_features.add("onnx")
    if glob.glob(os.path.join(config.source_dir, ".venv/lib/python3*/site-packages/transformers")):
        config.available_features.add("transformers")
    if glob.glob(os.path.join(config.source_dir, ".venv/lib/python3*/site-packages/auditwheel")):
        config.available_features.add("wheels")
    if glob.glob(os.path.join(config.source_dir, ".venv/lib/python3*/site-packages/mkdocs")):
        config.available_features.add("mkdocs")
else:
    python = sys.executable

# Assembles GPU kernels; needs no GPU.
places = [os.path.join(f, "bin") for f in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if f]
ptxas = shutil.which("ptxas", path=os.pathsep.join([*places, os.environ["PATH"]]))
wheels = os.path.join(config.source_dir, ".venv/lib/python3*/site-packages/nvidia/cu13/bin/ptxas")
if not ptxas and glob.glob(wheels):
    ptxas = glob.glob(wheels)[0]
    config.environment["CUDA_HOME"] = os.path.dirname(os.path.dirname(ptxas))
if ptxas:
    config.available_features.add("ptxas")
    config.substitutions.append(("%ptxas", ptxas))

# The binding for Go is built with Debian's golang-go.
if shutil.which("go"):
    config.available_features.add("go")
# For Rust the tests install no toolchain, which is large: no test where there is none.
if not shutil.which("cargo"):
    config.excludes.append("rust.test")

# Pages are looked at in a real browser.
browser = shutil.which("chromium-headless-shell") or shutil.which("chromium")
if browser:
    config.available_features.add("browser")
    config.substitutions.append(("%browser", browser))

# Ranks in several processes; where there is no Gloo, no plugin was built.
if os.path.exists(os.path.join(config.build_dir, "lib", "libtrainrt-gloo.so")):
    config.available_features.add("gloo")
# Open MPI's; others set other variables.
if shutil.which("mpirun") and shutil.which("ompi_info"):
    config.available_features.add("mpirun")

# The runtime for AArch64, where it was cross compiled; what it was linked with is beside it.
if os.path.exists(os.path.join(config.build_dir, "aarch64", "bin", "trainc-run")):
    config.available_features.add("aarch64")
cross_libraries = os.path.join(config.source_dir, ".deps", "aarch64", "lib")
config.substitutions += [
    ("%qemu_aarch64", f"qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH={cross_libraries}"),
    ("%qemu_x86_64", "qemu-x86_64"),
]

e2e = os.path.join(config.test_source_root, "e2e")
run_e2e = f"{python} {e2e}/run_e2e.py --trainc {binaries}/trainc --trainc-run {binaries}/trainc-run"
# Longer names first: lit replaces text, not words.
config.substitutions += [
    ("%run_e2e", run_e2e),
    ("%python", python),
    ("%models", os.path.join(e2e, "models")),
    ("%source_dir", config.source_dir),
    ("%build_dir", config.build_dir),
    ("%cc", config.c_compiler),
]
