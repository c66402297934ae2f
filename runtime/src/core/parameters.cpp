// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where parameters get their values: files beside the package, the package itself, a weights file,
// or a random generator keyed on (seed, name), so that the values do not depend on order or
// threads.

#include "core/parameters.h"
#include "core/array_file.h"
#include "core/convert.h"
#include "core/plan.h"
#include "io/hash.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace trainrt {

namespace {

/// Bytes that a thread should copy at least.
constexpr int64_t copyGrain = 1 << 20;

/// The value as it lies at `data`.
Device::Source copyOf(const void *data, ThreadPool &pool) {
  auto *from = static_cast<const unsigned char *>(data);
  return [from, &pool](unsigned char *to, int64_t begin, int64_t end) {
    pool.parallelFor(end - begin, copyGrain, [=](unsigned, int64_t first, int64_t last) {
      std::memcpy(to + first, from + begin + first, size_t(last - first));
    });
  };
}

} // namespace

bool ParameterStore::inBlock(size_t index, bool readOnly) const {
  const Manifest::Tensor &parameter = package->parameter(index);
  return !device->isHost() || (!readOnly && (parameter.trainable || parameter.updated));
}

Status ParameterStore::create(std::shared_ptr<const Package> source, Device &where, bool readOnly) {
  package = std::move(source);
  device = &where;
  slots.resize(package->program().parameters.size());
  const int64_t alignment = alignmentOf(package->program().target);
  std::vector<int64_t> offsets(slots.size());
  int64_t end = 0;
  for (size_t i = 0; i < slots.size(); ++i)
    if (inBlock(i, readOnly)) {
      offsets[i] = end;
      end += padded(package->program().parameters[i].staticBytes, alignment);
    }
  TRAINRT_TRY(device->allocate(end, "parameters", false, block));
  held = block.size();
  for (size_t i = 0; i < slots.size(); ++i)
    if (inBlock(i, readOnly)) {
      slots[i].data = block.data() + offsets[i];
      slots[i].own = true;
    }
  return {};
}

Status ParameterStore::own(size_t index) {
  Slot &slot = slots[index];
  if (slot.own)
    return {};
  const TensorDecl &decl = package->program().parameters[index];
  DeviceMemory memory;
  TRAINRT_TRY(device->allocate(decl.staticBytes, "parameters", true, memory));
  if (slot.valid)
    mapped -= decl.staticBytes;
  held += memory.size();
  slot.data = memory.data();
  slot.own = true;
  copies.push_back(std::move(memory));
  return {};
}

Status ParameterStore::store(size_t index, const Device::Source &source) {
  TRAINRT_TRY(own(index));
  TRAINRT_TRY(
      device->write(slots[index].data, package->program().parameters[index].staticBytes, source));
  slots[index].valid = true;
  return {};
}

Status ParameterStore::set(size_t index, const void *data) {
  int64_t bytes = package->program().parameters[index].staticBytes;
  // A checkpoint holds the frozen ones, too: these stay mapped.
  const Slot &slot = slots[index];
  if (slot.valid && !slot.own && (!bytes || std::memcmp(slot.data, data, size_t(bytes)) == 0))
    return {};
  return store(index, copyOf(data, device->threads()));
}

void ParameterStore::useMapped(size_t index, const unsigned char *data,
                               std::shared_ptr<const MappedFile> file) {
  if (!slots[index].valid)
    mapped += package->program().parameters[index].staticBytes;
  // Kernels only read frozen parameters; the mapping is read-only anyway.
  slots[index].data = const_cast<unsigned char *>(data);
  slots[index].valid = true;
  if (std::find(mappings.begin(), mappings.end(), file) == mappings.end())
    mappings.push_back(std::move(file));
}

std::string ParameterStore::missing() const {
  std::string names;
  size_t count = 0;
  for (size_t i = 0; i < slots.size(); ++i)
    if (!slots[i].valid && ++count <= 10)
      names += (names.empty() ? "'" : ", '") + package->program().parameters[i].name + "'";
  if (count > 10)
    names += " and " + std::to_string(count - 10) + " more";
  return names;
}

Status ParameterStore::openFile(const std::string &path, std::shared_ptr<const MappedFile> &file) {
  auto known = opened.find(path);
  if (known != opened.end()) {
    file = known->second;
    return {};
  }
  const auto &files = package->manifest().files;
  auto entry = std::find_if(files.begin(), files.end(),
                            [&](const Manifest::File &listed) { return listed.path == path; });
  const std::string advice =
      "; give the weights as a safetensors file (--weights FILE), random ones "
      "(--init normal:STD), or compile again where the file is";
  std::string full = directoryOf(package->path()) + path;
  if (entry->absent)
    return fail(Code::MissingWeights, "the weights' file '", full,
                "' was not there when the package was compiled", advice);
  Status status = MappedFile::open(full, file);
  if (status.code() == Code::NotFound)
    return Status(Code::MissingWeights,
                  "the weights' file is missing: " + status.message() + advice);
  TRAINRT_TRY(status);
  constexpr uint64_t mebibyte = 1 << 20;
  uint64_t size = file->size(), part = std::min(size, mebibyte);
  if (int64_t(size) != entry->size)
    return fail(Code::MissingWeights, "the weights' file '", full, "' has ", size,
                " bytes, but had ", entry->size, " when the package was compiled", advice);
  if (fnv1a64(file->data(), part) != entry->head ||
      fnv1a64(file->data() + size - part, part) != entry->tail)
    return fail(Code::MissingWeights, "the weights' file '", full,
                "' has changed since the package was compiled", advice);
  opened[path] = file;
  return {};
}

Status ParameterStore::bytesOf(const Manifest::Tensor &entry, const unsigned char *&data,
                               std::shared_ptr<const MappedFile> &file) {
  if (entry.embedded) {
    file = package->zip().mapping();
    data = package->zip().data(*package->zip().find(entry.file)) + entry.offset;
    return {};
  }
  TRAINRT_TRY(openFile(entry.file, file));
  if (entry.offset > int64_t(file->size()) || entry.length > int64_t(file->size()) - entry.offset)
    return fail(Code::BadPackage, "package '", package->path(), "': the weights of '", entry.name,
                "' lie outside of '", entry.file, "'");
  data = file->data() + entry.offset;
  return {};
}

Status ParameterStore::fromPackage(size_t index) {
  const Manifest::Tensor &entry = package->parameter(index);
  const TensorDecl &decl = package->program().parameters[index];
  if (!entry.hasWeights)
    return fail(Code::MissingWeights, "parameter '", decl.name,
                "' has no weights in the package; give them as a safetensors file (--weights FILE) "
                "or random ones (--init normal:STD)");
  std::shared_ptr<const MappedFile> file;
  const unsigned char *data;
  TRAINRT_TRY(bytesOf(entry, data, file));
  bool aligned = reinterpret_cast<uintptr_t>(data) % sizeOf(decl.dtype) == 0;
  if (slots[index].own || !aligned)
    return set(index, data);
  useMapped(index, data, std::move(file));
  return {};
}

Status ParameterStore::loadPackage() {
  for (size_t i = 0; i < slots.size(); ++i)
    TRAINRT_TRY(fromPackage(i));
  return {};
}

Status ParameterStore::loadFile(const std::string &path, std::string &warnings) {
  ArrayFile file;
  TRAINRT_TRY(ArrayFile::open(path, file));
  std::string problems;
  size_t numProblems = 0, used = 0;
  auto problem = [&](const std::string &text) {
    if (++numProblems <= 20)
      problems += "\n  " + text;
  };
  for (size_t i = 0; i < slots.size(); ++i) {
    const TensorDecl &decl = package->program().parameters[i];
    int64_t found = file.find(decl.name);
    if (found < 0) {
      if (package->parameter(i).trainable || !fromPackage(i).ok())
        problem("'" + decl.name + "' is missing");
      continue;
    }
    ++used;
    ArrayView array;
    bool isMapped = false;
    TRAINRT_TRY(file.array(size_t(found), array, &isMapped));
    if (array.shape != decl.staticShape) {
      problem("'" + decl.name + "' has shape " + shapeText(array.shape) + ", expected " +
              shapeText(decl.staticShape));
    } else if (!convertsExactly(array.dtype, decl.dtype)) {
      problem("'" + decl.name + "' is " + numpyName(array.dtype) + ", expected " +
              numpyName(decl.dtype));
    } else if (array.dtype == decl.dtype && isMapped && !slots[i].own) {
      useMapped(i, static_cast<const unsigned char *>(array.data), file.mapping());
    } else {
      TRAINRT_TRY(store(i, [&](unsigned char *to, int64_t begin, int64_t end) {
        int64_t size = int64_t(sizeOf(decl.dtype)), from = begin / size;
        convertElements(static_cast<const unsigned char *>(array.data) +
                            from * int64_t(sizeOf(array.dtype)),
                        array.dtype, to, decl.dtype, (end - begin) / size);
      }));
    }
  }
  if (numProblems > 20)
    problems += "\n  and " + std::to_string(numProblems - 20) + " more";
  if (numProblems)
    return fail(Code::BadData, "'", path, "' does not fit the model:", problems);
  if (used < file.size()) {
    std::string first;
    for (size_t i = 0; i < file.size() && first.empty(); ++i)
      if (std::none_of(package->program().parameters.begin(), package->program().parameters.end(),
                       [&](const TensorDecl &decl) { return decl.name == file.name(i); }))
        first = file.name(i);
    warnings += "'" + path + "': " + std::to_string(file.size() - used) +
                " arrays are no parameters of the model and are ignored (first: '" + first + "')\n";
  }
  return {};
}

void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t result[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
    uint64_t p0 = uint64_t(0xd2511f53u) * c0, p1 = uint64_t(0xcd9e8d57u) * c2;
    uint32_t n0 = uint32_t(p1 >> 32) ^ c1 ^ k0, n2 = uint32_t(p0 >> 32) ^ c3 ^ k1;
    c1 = uint32_t(p1);
    c3 = uint32_t(p0);
    c0 = n0;
    c2 = n2;
  }
  result[0] = c0;
  result[1] = c1;
  result[2] = c2;
  result[3] = c3;
}

namespace {

/// Element `index` of memory for `dtype` becomes `value`, rounded to nearest.
void storeElement(unsigned char *target, DType dtype, int64_t index, double value) {
  float single = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &single, 4);
  if (dtype == DType::F32) {
    std::memcpy(target + index * 4, &single, 4);
  } else if (dtype == DType::F64) {
    std::memcpy(target + index * 8, &value, 8);
  } else if (dtype == DType::BF16) {
    auto rounded = uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    std::memcpy(target + index * 2, &rounded, 2);
  } else {
    // f16: scaled by 2^-112, a float has f16's exponent; initial values are far from its overflow.
    float magnitude = std::min(std::fabs(single), 65504.0f) * 0x1p-112f;
    uint32_t small;
    std::memcpy(&small, &magnitude, 4);
    auto rounded =
        uint16_t(((small + 0xfff + ((small >> 13) & 1)) >> 13) | (single < 0 ? 0x8000 : 0));
    std::memcpy(target + index * 2, &rounded, 2);
  }
}

/// Normally distributed elements keyed on (seed, hash), or ones.
Device::Source randomValues(DType dtype, bool ones, uint64_t seed, uint64_t hash, double std,
                            ThreadPool &pool) {
  return [=, &pool](unsigned char *to, int64_t beginByte, int64_t endByte) {
    // Four elements share one call of the generator; `beginByte` is a multiple of 64.
    const int64_t size = int64_t(sizeOf(dtype)), first = beginByte / size, last = endByte / size;
    const int64_t firstGroup = first / 4;
    pool.parallelFor((last - first + 3) / 4, 4096, [&](unsigned, int64_t begin, int64_t end) {
      for (int64_t group = firstGroup + begin; group < firstGroup + end; ++group) {
        double values[4] = {1, 1, 1, 1};
        if (!ones) {
          uint32_t counter[4] = {uint32_t(group), uint32_t(group >> 32), uint32_t(hash),
                                 uint32_t(hash >> 32)};
          uint32_t key[2] = {uint32_t(seed), uint32_t(seed >> 32)}, words[4];
          philox4x32(counter, key, words);
          for (int pair = 0; pair < 4; pair += 2) { // Box and Muller
            double radius = std::sqrt(-2 * std::log((words[pair] + 1.0) * 0x1p-32));
            double angle = 2 * M_PI * (words[pair + 1] * 0x1p-32);
            values[pair] = std * radius * std::cos(angle);
            values[pair + 1] = std * radius * std::sin(angle);
          }
        }
        for (int64_t i = group * 4; i < std::min(last, group * 4 + 4); ++i)
          storeElement(to, dtype, i - first, values[i - group * 4]);
      }
    });
  };
}

} // namespace

Status ParameterStore::randomize(int64_t seed, double std, std::string &warnings) {
  for (size_t i = 0; i < slots.size(); ++i) {
    const TensorDecl &decl = package->program().parameters[i];
    bool trainable = package->parameter(i).trainable;
    // Frozen values are no weights but tables and masks of the graph: only their own will do.
    if (!trainable && fromPackage(i).ok())
      continue;
    if (!trainable)
      warnings += "frozen parameter '" + decl.name + "' is not available and is initialized, too\n";
    bool isNorm = decl.staticShape.size() == 1 && decl.name.ends_with("weight");
    if (!isFloat(decl.dtype) || decl.name.ends_with("bias")) {
      TRAINRT_TRY(store(i, [](unsigned char *to, int64_t begin, int64_t end) {
        std::memset(to, 0, size_t(end - begin));
      }));
      continue;
    }
    uint64_t hash = fnv1a64(decl.name.data(), decl.name.size());
    TRAINRT_TRY(
        store(i, randomValues(decl.dtype, isNorm, uint64_t(seed), hash, std, device->threads())));
  }
  return {};
}

} // namespace trainrt
