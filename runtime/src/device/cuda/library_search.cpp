// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The search for NVIDIA's libraries, through dlopen.

#include "device/cuda/library_search.h"

#include "device/cuda/driver.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <dlfcn.h>

namespace trainrt::cuda {

namespace fs = std::filesystem;

namespace {

const char *const systemToolkit = "/usr/local/cuda/lib64";

/// Empty where it is not set.
std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// The parts of a list with colons between them, but empty ones.
std::vector<std::string> splitPath(const std::string &list) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < list.size();) {
    size_t end = std::min(list.find(':', begin), list.size());
    // Colons beside each other have nothing between.
    if (end != begin)
      parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Each folder once, in the order of preference.
void addFolder(std::vector<std::string> &folders, const fs::path &folder) {
  std::error_code ignored;
  std::string text = folder.lexically_normal().string();
  if (!text.empty() && fs::is_directory(folder, ignored) &&
      std::find(folders.begin(), folders.end(), text) == folders.end())
    folders.push_back(text);
}

/// Of a toolkit's folder those with libraries.
void addToolkit(std::vector<std::string> &folders, const fs::path &root) {
  // Set to nothing is not set.
  if (root.empty())
    return;
  addFolder(folders, root / "lib64");
  addFolder(folders, root / "lib");
}

/// The layout of NVIDIA's wheels: site-packages/nvidia/cu13/lib, site-packages/nvidia/cudnn/lib.
void addWheels(std::vector<std::string> &folders, const fs::path &sitePackages) {
  std::error_code error;
  std::vector<std::string> found;
  for (fs::directory_iterator it(sitePackages / "nvidia", error), end; !error && it != end;
       it.increment(error))
    found.push_back((it->path() / "lib").string());
  // The system's order is none.
  std::sort(found.begin(), found.end());
  for (const std::string &folder : found)
    addFolder(folders, folder);
}

/// Those of the Pythons in reach: of the active environment, of PATH, of the person, of the system.
void addInstalledWheels(std::vector<std::string> &folders) {
  std::vector<fs::path> prefixes;
  // The active environment first.
  for (const char *name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    prefixes.push_back(environment(name));
  std::error_code error;
  for (const std::string &folder : splitPath(environment("PATH")))
    if (fs::exists(fs::path(folder) / "python3", error))
      prefixes.push_back(fs::path(folder).parent_path());
  if (std::string home = environment("HOME"); !home.empty())
    prefixes.push_back(fs::path(home) / ".local");
  prefixes.push_back("/usr/local");
  prefixes.push_back("/usr");
  // Relative entries of PATH depend on where the process runs.
  for (const fs::path &prefix : prefixes) {
    if (!prefix.is_absolute())
      continue;
    std::vector<fs::path> pythons;
    for (fs::directory_iterator it(prefix / "lib", error), end; !error && it != end;
         it.increment(error))
      if (it->path().filename().string().rfind("python3", 0) == 0)
        pythons.push_back(it->path());
    // Versions in the order of their names.
    std::sort(pythons.begin(), pythons.end());
    for (const fs::path &python : pythons)
      for (const char *packages : {"site-packages", "dist-packages"})
        addWheels(folders, python / packages);
  }
}

/// Where the loader looks that is not in its cache alone.
void addLoaderFolders(std::vector<std::string> &folders) {
  for (const std::string &folder : splitPath(environment("LD_LIBRARY_PATH")))
    addFolder(folders, folder);
  for (const char *folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                             "/usr/lib64", "/usr/lib", "/usr/local/lib"})
    addFolder(folders, folder);
}

} // namespace

void *SharedLibrary::symbol(const char *name) const { return dlsym(handle, name); }

/// In the order of preference: beside the program, beside this library, where the user says,
/// toolkits.
std::vector<std::string> librarySearchPath() {
  std::vector<std::string> folders;
  std::error_code error;
  fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    addFolder(folders, executable.parent_path());
    addFolder(folders, executable.parent_path() / ".." / "lib");
  }
  Dl_info self;
  if (dladdr(reinterpret_cast<const void *>(&librarySearchPath), &self) && self.dli_fname) {
    fs::path library = fs::weakly_canonical(self.dli_fname, error);
    if (!error)
      addFolder(folders, library.parent_path());
  }
  // A folder of libraries, a toolkit, or site-packages: whatever it is.
  for (const std::string &named : splitPath(environment("TRAINRT_CUDA_PATH"))) {
    fs::path folder = named;
    addFolder(folders, folder);
    addToolkit(folders, folder);
    addWheels(folders, folder);
  }
  addToolkit(folders, environment("CUDA_HOME"));
  addToolkit(folders, environment("CUDA_ROOT"));
  return folders;
}

/// All of them, so that versions can be compared.
std::vector<std::string> findLibraries(const std::string &name) {
  std::vector<std::string> folders = librarySearchPath(), found;
  addLoaderFolders(folders);
  addFolder(folders, systemToolkit);
  addInstalledWheels(folders);
  std::error_code ignored;
  for (const std::string &folder : folders)
    if (std::string path = folder + "/" + name; fs::exists(path, ignored))
      found.push_back(path);
  return found;
}

/// The first name that can be loaded, by place; a file that is damaged is told if nothing else is
/// found.
Status loadLibrary(const std::vector<std::string> &names, const std::string &hint,
                   SharedLibrary &library) {
  // Folders are listed once for all names.
  std::vector<std::string> folders = librarySearchPath(), wheels;
  addInstalledWheels(wheels);
  std::string damaged;
  auto tryPath = [&](const std::string &path) {
    void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      // A file that is there but cannot be loaded is what the person has to know about.
      std::error_code ignored;
      const char *why = dlerror();
      if (fs::exists(path, ignored) && damaged.empty())
        damaged = why ? why : path;
      return false;
    }
    library = {handle, path};
    return true;
  };
  // A newer name goes before a nearer place.
  for (const std::string &name : names) {
    for (const std::string &folder : folders)
      if (tryPath(folder + "/" + name))
        return {};
    // Without a folder the loader's own path and cache.
    if (tryPath(name) || tryPath(std::string(systemToolkit) + "/" + name))
      return {};
    for (const std::string &folder : wheels)
      if (tryPath(folder + "/" + name))
        return {};
  }
  std::string list, places;
  for (const std::string &name : names)
    list += (list.empty() ? "" : " or ") + name;
  for (const std::string &folder : folders)
    places += folder + ", ";
  if (!damaged.empty())
    return fail(Code::NotFound, "cannot load ", list, ": ", damaged);
  return fail(
      Code::NotFound, "cannot find ", list, " (", hint, "); looked in ", places,
      "the loader's path, ", systemToolkit,
      " and NVIDIA's wheels in the Pythons of PATH. Set "
      "TRAINRT_CUDA_PATH to the folder of the "
      "library, to a CUDA toolkit or to a Python site-packages folder with NVIDIA's wheels");
}

/// As the user names it: nothing else is tried.
Status loadLibraryAt(const std::string &path, SharedLibrary &library) {
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *why = dlerror();
    return fail(Code::NotFound, "cannot load ", path, ": ", why ? why : "unknown reason");
  }
  library = {handle, path};
  return {};
}

/// Of the device that is current. What was tuned or built for one of a name and a size is good for
/// all of them.
Status deviceIdentity(const Driver &driver, std::string &identity) {
  CUdevice device = 0;
  int multiprocessors = 0;
  char name[256] = "";
  CUresult result = driver.cuCtxGetDevice(&device);
  if (result == CUDA_SUCCESS)
    result = driver.cuDeviceGetName(name, sizeof name, device);
  if (result == CUDA_SUCCESS)
    result = driver.cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                         device);
  TRAINRT_TRY(driver.check(result, "cannot name the current device"));
  identity = std::string(name) + ", " + std::to_string(multiprocessors) + " SMs";
  return {};
}

} // namespace trainrt::cuda
