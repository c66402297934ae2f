// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parameters' memory, and values as they are from files beside the package, the package itself,
// or a weights file.

#include "session/parameters/parameters.h"
#include "format/hash.h"
#include "format/memory/arena_plan.h"
#include "io/convert.h"
#include "session/parameters/weights_file.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace trainrt {

namespace {

/// Bytes that a thread should copy at least.
constexpr int64_t copyGrain = 1 << 20;

/// The value as it lies at `data`.
Device::Source copyOf(const void *data, ThreadPool &pool) {
  auto *from = static_cast<const unsigned char *>(data);
  return [from, &pool](unsigned char *to, int64_t begin, int64_t end) {
    // Threads cut it where they like: bytes are copied as they are.
    pool.parallelFor(end - begin, copyGrain, [=](unsigned, int64_t first, int64_t last) {
      std::memcpy(to + first, from + begin + first, size_t(last - first));
    });
  };
}

/// Where sources begin.
constexpr int64_t sourceAlignment = 64;

/// What `whole` has from byte `begin` on.
Device::Source behind(const Device::Source &whole, int64_t begin) {
  if (!begin)
    return whole;
  return [whole, begin](unsigned char *to, int64_t first, int64_t last) {
    if ((begin + first) % sourceAlignment == 0)
      return whole(to, begin + first, begin + last);
    // A shard may begin anywhere: in pieces, by way of a copy that begins in front of them.
    std::vector<unsigned char> piece;
    for (int64_t at = first, size; at < last; at += size) {
      size = std::min(copyGrain, last - at);
      const int64_t before = (begin + at) % sourceAlignment;
      piece.resize(size_t(before + size));
      whole(piece.data(), begin + at - before, begin + at + size);
      std::copy_n(piece.data() + before, size, to + (at - first));
    }
  };
}

} // namespace

/// Writable parameters lie in one block on the host; a device has all of them in its memory.
bool ParameterStore::inBlock(size_t index, bool readOnly) const {
  return !device->isHost() || (!readOnly && package->isWritten(index));
}

Status ParameterStore::create(std::shared_ptr<const Package> source, Device &on, bool readOnly,
                              const RunPlace &where) {
  package = std::move(source);
  device = &on;
  place = where;
  slots.resize(package->program().parameters.size());
  // Names are unique: the package has been checked.
  for (size_t i = 0; i < slots.size(); ++i)
    places[package->program().parameters[i].name] = i;
  const int64_t alignment = traitsOf(package->program().target).alignment;
  std::vector<int64_t> offsets(slots.size());
  int64_t end = 0;
  // Others get memory when they need some of their own.
  for (size_t i = 0; i < slots.size(); ++i)
    if (inBlock(i, readOnly)) {
      offsets[i] = end;
      end += padded(rangeOf(i).held, alignment);
    }
  DeviceMemory &block = blocks.emplace_back();
  TRAINRT_TRY(device->allocate(end, "parameters", false, block));
  // Also what a file's values replace later: the block is there from the beginning.
  held = block.size();
  for (size_t i = 0; i < slots.size(); ++i)
    if (inBlock(i, readOnly)) {
      slots[i].data = block.data() + offsets[i];
      slots[i].own = true;
      slots[i].owner = block.share();
    }
  return {};
}

/// Memory of its own for a parameter that is mapped or has no value; the old value is gone.
Status ParameterStore::own(size_t index) {
  Slot &slot = slots[index];
  if (slot.own)
    return {};
  const TensorDecl &decl = package->program().parameters[index];
  DeviceMemory memory;
  TRAINRT_TRY(device->allocate(rangeOf(index).held, "parameters", true, memory));
  // Until now it was counted as mapped.
  if (slot.valid)
    mapped -= decl.staticBytes;
  held += memory.size();
  slot.data = memory.data();
  slot.own = true;
  slot.owner = memory.share();
  blocks.push_back(std::move(memory));
  return {};
}

Status ParameterStore::store(size_t index, const Device::Source &source) {
  // Before anything is written: without memory the old value stays.
  TRAINRT_TRY(own(index));
  const ShardRange range = rangeOf(index);
  TRAINRT_TRY(device->write(slots[index].data, range.there, behind(source, range.begin)));
  TRAINRT_TRY(clearEnd(index));
  slots[index].valid = true;
  return {};
}

/// What a shard has behind the end of the parameter.
Status ParameterStore::clearEnd(size_t index) {
  const ShardRange range = rangeOf(index);
  return range.held == range.there
             ? Status()
             : device->clear(slots[index].data + range.there, range.held - range.there);
}

/// Of the declared type and size; the caller has checked that.
Status ParameterStore::set(size_t index, const void *data, bool onDevice) {
  const int64_t bytes = package->program().parameters[index].staticBytes;
  if (onDevice) {
    const ShardRange range = rangeOf(index);
    TRAINRT_TRY(own(index));
    TRAINRT_TRY(device->copy(slots[index].data,
                             static_cast<const unsigned char *>(data) + range.begin, range.there));
    TRAINRT_TRY(clearEnd(index));
    slots[index].valid = true;
    return {};
  }
  // A checkpoint holds the frozen ones, too: these stay mapped.
  const Slot &slot = slots[index];
  if (slot.valid && !slot.own && (!bytes || std::memcmp(slot.data, data, size_t(bytes)) == 0))
    return {};
  return store(index, copyOf(data, device->threads()));
}

void ParameterStore::useMapped(size_t index, const unsigned char *data,
                               std::shared_ptr<const MappedFile> file) {
  assert(!slots[index].own && "its own memory would be lost");
  // Counted once, whatever file it comes from.
  if (!slots[index].valid)
    mapped += package->program().parameters[index].staticBytes;
  // Kernels only read frozen parameters; the mapping is read-only anyway.
  slots[index].data = const_cast<unsigned char *>(data);
  slots[index].valid = true;
  slots[index].owner = std::move(file);
}

std::string ParameterStore::missing() const {
  std::string names;
  size_t count = 0;
  // Ten names tell enough.
  for (size_t i = 0; i < slots.size(); ++i)
    if (!slots[i].valid && ++count <= 10)
      names += (names.empty() ? "'" : ", '") + shown(package->program().parameters[i].name) + "'";
  if (count > 10)
    names += " and " + std::to_string(count - 10) + " more";
  return names;
}

Status ParameterStore::openFile(const std::string &path, std::shared_ptr<const MappedFile> &file,
                                bool orRandom) {
  // Checked once: many parameters share a file.
  auto known = opened.find(path);
  if (known != opened.end()) {
    file = known->second;
    return {};
  }
  const auto &files = package->manifest().files;
  auto entry = std::find_if(files.begin(), files.end(),
                            [&](const Manifest::File &listed) { return listed.path == path; });
  // Which advice helps depends on what the caller may do instead.
  const std::string advice =
      std::string("; give the weights by name (--weights FILE: the .onnx, .safetensors or .npz)") +
      (orRandom ? ", random ones (--init normal:STD), or compile again where the file is" : "");
  std::string full = directoryOf(package->path()) + path;
  if (entry->absent)
    return fail(Code::MissingWeights, "the weights' file '", full,
                "' was not there when the package was compiled", advice);
  Status status = MappedFile::open(full, file);
  if (status.code() == Code::NotFound)
    return Status(Code::MissingWeights,
                  "the weights' file is missing: " + status.message() + advice);
  TRAINRT_TRY(status);
  // Size, beginning and end: a file of many gigabytes is not read for this.
  constexpr uint64_t mebibyte = 1 << 20;
  uint64_t size = file->size(), part = std::min(size, mebibyte);
  if (int64_t(size) != entry->size)
    return fail(Code::MissingWeights, "the weights' file '", full, "' has ", size,
                " bytes, but had ", entry->size, " when the package was compiled", advice);
  if (fnv1a64(file->data(), part) != entry->head ||
      fnv1a64(file->data() + size - part, part) != entry->tail)
    return fail(Code::MissingWeights, "the weights' file '", full,
                "' has changed since the package was compiled", advice);
  // Only a file that fits is kept.
  opened[path] = file;
  return {};
}

Status ParameterStore::bytesOf(const Manifest::Tensor &entry, const unsigned char *&data,
                               std::shared_ptr<const MappedFile> &file, bool orRandom) {
  // Entries inside of the package were checked with it.
  if (entry.embedded) {
    file = package->zip().mapping();
    data = package->zip().data(*package->zip().find(entry.file)) + entry.offset;
    return {};
  }
  TRAINRT_TRY(openFile(entry.file, file, orRandom));
  // Without a sum that might overflow.
  if (entry.offset > int64_t(file->size()) || entry.length > int64_t(file->size()) - entry.offset)
    return fail(Code::BadPackage, "package '", package->path(), "': the weights of '", entry.name,
                "' lie outside of '", entry.file, "'");
  data = file->data() + entry.offset;
  return {};
}

Status ParameterStore::fromPackage(size_t index, bool orRandom) {
  const Manifest::Tensor &entry = package->parameter(index);
  const TensorDecl &decl = package->program().parameters[index];
  if (!entry.hasWeights)
    return fail(Code::MissingWeights, "parameter '", decl.name,
                "' has no weights in the package; give them as a safetensors file (--weights FILE)",
                orRandom ? " or random ones (--init normal:STD)" : "");
  std::shared_ptr<const MappedFile> file;
  const unsigned char *data;
  TRAINRT_TRY(bytesOf(entry, data, file, orRandom));
  // Made of the model's own values: these are no longer needed then.
  if (entry.quantized) {
    TRAINRT_TRY(storeQuantized(index, elementsOf(data, entry.quantized->dtype),
                               entry.embedded ? "the package" : "'" + file->path() + "'"));
    file->evict(data, uint64_t(entry.length));
    return {};
  }
  // Kernels read whole elements.
  bool aligned = reinterpret_cast<uintptr_t>(data) % sizeOf(decl.dtype) == 0;
  if (mayBeMapped(index) && aligned) {
    useMapped(index, data, std::move(file));
    return {};
  }
  TRAINRT_TRY(set(index, data));
  // The copy is what is used: what was read would count as the process's as long as it runs.
  file->evict(data, uint64_t(decl.staticBytes));
  return {};
}

/// Statistics come with what they are of.
Status ParameterStore::loadPackage(int64_t seed) {
  for (size_t i = 0; i < slots.size(); ++i) {
    const Manifest::Tensor &entry = package->parameter(i);
    if (entry.partOf.empty())
      TRAINRT_TRY(entry.init && !entry.hasWeights ? initialize(i, seed) : fromPackage(i));
  }
  return {};
}

namespace {

/// Floats to a type that does not hold all of them: to the nearest.
void narrow(const unsigned char *from, DType fromType, unsigned char *to, DType toType,
            int64_t count) {
  constexpr int64_t most = 1024;
  float values[most];
  // Through f32, a piece at a time: f64 has been rounded once by then, as PyTorch does it.
  for (int64_t begin = 0; begin < count; begin += most) {
    const int64_t size = std::min(most, count - begin);
    if (fromType == DType::F64)
      for (int64_t i = 0; i < size; ++i) {
        double value;
        std::memcpy(&value, from + (begin + i) * int64_t(sizeof value), sizeof value);
        values[i] = float(value);
      }
    else
      elementsOf(from, fromType)(begin, begin + size, values);
    roundElements(values, size, toType, to + begin * int64_t(sizeOf(toType)));
  }
}

} // namespace

/// `problem` tells what does not fit; a status that is not ok is an error of reading.
Status ParameterStore::fromFile(size_t index, WeightsFile &file, std::string &problem) {
  const TensorDecl &decl = package->program().parameters[index];
  WeightsFile::Tensor tensor;
  TRAINRT_TRY(file.tensor(decl.name, /*inPlace=*/false, tensor));
  const ArrayView &array = tensor.array;
  if (array.shape != decl.staticShape) {
    problem = "'" + decl.name + "' has shape " + shapeText(array.shape) + ", expected " +
              shapeText(decl.staticShape);
    return {};
  }
  // Integers have to fit exactly; floats may be rounded.
  const bool exact = convertsExactly(array.dtype, decl.dtype);
  if (!exact && !(isFloat(array.dtype) && isFloat(decl.dtype))) {
    problem =
        "'" + decl.name + "' is " + numpyName(array.dtype) + ", expected " + numpyName(decl.dtype);
    return {};
  }
  // Frozen ones stay in the file where they have the right type.
  auto *data = static_cast<const unsigned char *>(array.data);
  if (array.dtype == decl.dtype && tensor.mapping && mayBeMapped(index)) {
    useMapped(index, data, tensor.mapping);
    return {};
  }
  TRAINRT_TRY(store(index, [&](unsigned char *to, int64_t begin, int64_t end) {
    int64_t size = int64_t(sizeOf(decl.dtype)), from = begin / size;
    if (!exact)
      return narrow(data + from * int64_t(sizeOf(array.dtype)), array.dtype, to, decl.dtype,
                    (end - begin) / size);
    convertElements(data + from * int64_t(sizeOf(array.dtype)), array.dtype, to, decl.dtype,
                    (end - begin) / size);
  }));
  // The copy is what is used.
  if (tensor.mapping)
    tensor.mapping->evict(data, uint64_t(array.bytes));
  // The first one is named in a message for all.
  if (array.dtype != decl.dtype)
    if (Converted &these = exact ? widened : rounded; these.count++ == 0)
      these.first =
          "'" + decl.name + "' from " + numpyName(array.dtype) + " to " + numpyName(decl.dtype);
  return {};
}

Status ParameterStore::loadFile(const std::string &path, int64_t seed, std::string &warnings) {
  WeightsFile file;
  TRAINRT_TRY(WeightsFile::open(path, file));
  std::string problems;
  // All misfits in one message, up to some.
  size_t numProblems = 0;
  std::set<std::string> used;
  auto problem = [&](const std::string &text) {
    if (++numProblems <= 20)
      problems += "\n  " + shown(text);
  };
  // In the order of the program.
  for (size_t i = 0; i < slots.size(); ++i) {
    const Manifest::Tensor &entry = package->parameter(i);
    std::string misfit;
    if (!entry.partOf.empty())
      continue;
    // A name that is known is used, even if it does not fit.
    if (file.has(entry.name)) {
      used.insert(entry.name);
      TRAINRT_TRY(entry.quantized ? loadQuantized(i, file, used, misfit)
                                  : fromFile(i, file, misfit));
    } else if (entry.init) {
      TRAINRT_TRY(initialize(i, seed));
    } else {
      // Frozen ones may stay as the package has them.
      Status status = entry.trainable ? Status(Code::MissingWeights, "") : fromPackage(i);
      if (status.code() == Code::MissingWeights)
        misfit = "'" + entry.name + "' is missing";
      else
        TRAINRT_TRY(status);
    }
    if (!misfit.empty())
      problem(misfit);
  }
  if (numProblems > 20)
    problems += "\n  and " + std::to_string(numProblems - 20) + " more";
  // Values before the first misfit were set: the session is not created.
  if (numProblems)
    return fail(Code::BadData, "'", path, "' does not fit the model:", Lines{problems});
  size_t ignored = 0;
  std::string first;
  for (const std::string &name : file.names())
    if (!used.count(name) && ignored++ == 0)
      first = name;
  // Not a single name fits: it is another model's file.
  if (ignored && used.empty())
    return fail(Code::BadData, "'", path, "' does not fit the model: none of its ", ignored,
                " arrays is a parameter (first: '", first, "')");
  for (const auto &[these, how] :
       {std::pair(&rounded, "rounded to the model's own float type"),
        std::pair(&widened, "converted to the model's own, wider type, which changes no value")})
    if (these->count)
      warnings += "'" + path + "': " + std::to_string(these->count) +
                  (these->count == 1 ? " array is " : " arrays are ") + how +
                  " (first: " + these->first + ")\n";
  if (ignored)
    warnings += "'" + shown(path) + "': " + std::to_string(ignored) +
                " arrays are no parameters of the model and are ignored (first: '" + shown(first) +
                "')\n";
  return {};
}

} // namespace trainrt
