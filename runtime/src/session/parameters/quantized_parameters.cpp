// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parameters that a package stores quantized: made while they are loaded, out of the model's own
// values, range by range, so that there is never a copy of them; or read from a checkpoint that has
// the codes, bitsandbytes' or our own.

#include "format/json.h"
#include "io/convert.h"
#include "session/parameters/parameters.h"
#include "session/parameters/weights_file.h"
#include "session/quantize/four_bit.h"
#include "session/quantize/rows.h"

#include <cassert>
#include <cmath>

namespace trainrt {

namespace {

using Json = nlohmann::json;

int64_t elementCount(const Manifest::Quantized &quantized) {
  int64_t count = 0;
  (void)countElements(quantized.shape.data(), quantized.shape.size(), count);
  return count;
}

/// "[3, 17]".
std::string placeText(int64_t element, const std::vector<int64_t> &shape) {
  std::vector<int64_t> place(shape.size());
  for (size_t axis = shape.size(); axis-- > 0; element /= shape[axis])
    place[axis] = element % shape[axis];
  return shapeText(place);
}

std::string describe(std::string_view format, int64_t block, const std::vector<int64_t> &shape,
                     bool nested) {
  return std::string(format) + " in blocks of " + std::to_string(block) + " with " +
         (nested ? "double quantization" : "plain statistics") + ", of " + shapeText(shape);
}

/// The key of bitsandbytes' description of a tensor of 4 bits; "" if the file has none.
/// As safetensors files of bitsandbytes have it, beside the codes.
std::string stateKey(const WeightsFile &file, const std::string &name) {
  for (const char *format : {"nf4", "fp4"})
    if (std::string key = name + ".quant_state.bitsandbytes__" + format; file.has(key))
      return key;
  return {};
}

/// Whether the codes' values in the file are ours. The dynamic map comes from arithmetic that other
/// machines round otherwise in the last bits; far beyond them nothing else can be meant.
template <size_t size> bool sameMap(const ArrayView &array, const std::array<float, size> &ours) {
  // A difference in type or size says enough.
  if (array.dtype != DType::F32 || array.bytes != int64_t(sizeof ours))
    return false;
  std::array<float, size> theirs;
  elementsOf(array.data, array.dtype)(0, size, theirs.data());
  for (size_t i = 0; i < size; ++i)
    if (!(std::fabs(theirs[i] - ours[i]) <= 1e-6f * std::fabs(ours[i])))
      return false;
  return true;
}

} // namespace

/// All parts of one parameter, of its elements as the model has them.
Status ParameterStore::storeQuantized(size_t index, const Elements &elements,
                                      const std::string &origin) {
  const TensorDecl &decl = package->program().parameters[index];
  const Manifest::Quantized &quantized = *package->parameter(index).quantized;
  const int64_t count = elementCount(quantized);
  ThreadPool &pool = device->threads();
  // Elements are read again for the message: they are not kept.
  auto notFinite = [&](int64_t element) {
    float value;
    elements(element, element + 1, &value);
    return fail(Code::BadData, "'", decl.name, "' of ", origin, ": element ",
                placeText(element, quantized.shape), " is ", value,
                std::isfinite(value) ? ", which f16 cannot hold" : "", ": it cannot be stored as ",
                nameOf(quantized.format));
  };
  auto storePart = [&](const std::string &name, const void *data) {
    return set(places.at(name), data);
  };

  // The first element that the format cannot hold, or -1.
  int64_t bad;
  std::vector<float> absmax;
  if (quantized.format == QuantFormat::Cast) {
    bad = -1;
    TRAINRT_TRY(store(index, [&](unsigned char *to, int64_t begin, int64_t end) {
      // Ranges come one after the other; the first failure is the one that is told.
      const int64_t found = castElements(elements, decl.dtype, pool, to, begin / 2, end / 2);
      bad = bad < 0 ? found : bad;
    }));
    return bad < 0 ? Status() : notFinite(bad);
  }
  if (quantized.format == QuantFormat::Int8) {
    assert(quantized.shape.size() == 2 && "rows are of matrices");
    const int64_t columns = quantized.shape[1];
    // Statistics first: codes are made of them.
    if (!rowMaxima(elements, quantized.shape[0], columns, pool, absmax, bad))
      return notFinite(bad);
    TRAINRT_TRY(storePart(quantized.rowAbsmax, absmax.data()));
    return store(index, [&](unsigned char *to, int64_t begin, int64_t end) {
      encodeRows(elements, columns, absmax.data(), pool, reinterpret_cast<int8_t *>(to), begin,
                 end);
    });
  }
  if (!blockMaxima(elements, count, quantized.block, pool, absmax, bad))
    return notFinite(bad);
  // The type of the statistics' own parameter.
  const DType dtype = package->program().parameters[places.at(quantized.absmax)].dtype;
  if (!quantized.nestedAbsmax.empty()) {
    const NestedStatistics nested = encodeStatistics(absmax, pool);
    // A sum that overflows makes every difference infinite.
    if (!std::isfinite(nested.offset))
      return fail(Code::BadData, "'", decl.name, "' of ", origin,
                  ": its values are too large for double quantization: their sum is not finite");
    TRAINRT_TRY(storePart(quantized.absmax, nested.codes.data()));
    TRAINRT_TRY(storePart(quantized.nestedAbsmax, nested.absmax.data()));
    TRAINRT_TRY(storePart(quantized.nestedOffset, &nested.offset));
  } else if (dtype == DType::F32) {
    TRAINRT_TRY(storePart(quantized.absmax, absmax.data()));
  } else {
    // Statistics may be stored in 16 bits; codes are made of the f32 ones.
    std::vector<uint16_t> rounded(absmax.size());
    if (const int64_t block = castElements(elementsOf(absmax.data(), DType::F32), dtype, pool,
                                           reinterpret_cast<unsigned char *>(rounded.data()), 0,
                                           int64_t(absmax.size()));
        block >= 0)
      return fail(Code::BadData, "'", decl.name, "' of ", origin, ": the absmax ",
                  absmax[size_t(block)], " of block ", block, " is too large for ", nameOf(dtype));
    TRAINRT_TRY(storePart(quantized.absmax, rounded.data()));
  }
  // The codes are those of the unrounded statistics, as bitsandbytes makes them.
  return store(index, [&](unsigned char *to, int64_t begin, int64_t end) {
    encodeFourBit(quantized.format, elements, count, quantized.block, absmax.data(), pool, to,
                  begin, end);
  });
}

/// From the model's values, or from codes that someone has made.
Status ParameterStore::loadQuantized(size_t index, WeightsFile &file, std::set<std::string> &used,
                                     std::string &problem) {
  const Manifest::Tensor &entry = package->parameter(index);
  const Manifest::Quantized &quantized = *entry.quantized;
  WeightsFile::Tensor tensor;
  TRAINRT_TRY(file.tensor(entry.name, /*inPlace=*/true, tensor));
  const ArrayView &array = tensor.array;
  // Integers, or a description beside them: codes.
  if (!isFloat(array.dtype) || !stateKey(file, entry.name).empty())
    return loadCodes(index, file, used, problem);
  if (quantized.format == QuantFormat::Cast &&
      array.dtype == package->program().parameters[index].dtype)
    return fromFile(index, file, problem); // is what it would become
  // The shape that the model has, not that of the codes.
  if (array.shape != quantized.shape) {
    problem = "'" + entry.name + "' has shape " + shapeText(array.shape) + ", expected " +
              shapeText(quantized.shape);
    return {};
  }
  if (!convertsExactly(array.dtype, quantized.dtype)) {
    problem = "'" + entry.name + "' is " + numpyName(array.dtype) + ", expected " +
              numpyName(quantized.dtype);
    return {};
  }
  TRAINRT_TRY(storeQuantized(index, elementsOf(array.data, array.dtype), "'" + tensor.path + "'"));
  if (tensor.mapping)
    tensor.mapping->evict(array.data, uint64_t(array.bytes));
  return {};
}

/// One part, from a name that the checkpoint has for it.
Status ParameterStore::loadPart(const std::string &part, WeightsFile &file, const std::string &name,
                                std::set<std::string> &used, std::string &problem) {
  const size_t index = places.at(part);
  const TensorDecl &decl = package->program().parameters[index];
  if (!file.has(name)) {
    problem = "'" + name + "' is missing";
    return {};
  }
  // Names of parts are used, so that they are not told as ignored.
  used.insert(name);
  WeightsFile::Tensor tensor;
  TRAINRT_TRY(file.tensor(name, /*inPlace=*/true, tensor));
  const ArrayView &array = tensor.array;
  // bitsandbytes stores statistics in f32.
  const bool same = array.dtype == decl.dtype;
  if (array.shape != decl.staticShape ||
      !(same || (array.dtype == DType::F32 && isFloat(decl.dtype)))) {
    problem = "'" + name + "' is " + numpyName(array.dtype) + " " + shapeText(array.shape) +
              ", expected " + numpyName(decl.dtype) + " " + shapeText(decl.staticShape);
    return {};
  }
  if (same)
    return set(index, array.data);
  const int64_t count = array.bytes / 4;
  std::vector<uint16_t> rounded(static_cast<size_t>(count));
  if (castElements(elementsOf(array.data, DType::F32), decl.dtype, device->threads(),
                   reinterpret_cast<unsigned char *>(rounded.data()), 0, count) >= 0) {
    problem = "'" + name + "' has values too large for " + numpyName(decl.dtype);
    return {};
  }
  return set(index, rounded.data());
}

/// Nothing is decoded: the codes have to be of the same format, in the same blocks.
Status ParameterStore::loadCodes(size_t index, WeightsFile &file, std::set<std::string> &used,
                                 std::string &problem) {
  const TensorDecl &decl = package->program().parameters[index];
  const Manifest::Quantized &quantized = *package->parameter(index).quantized;
  const std::string &name = decl.name;
  const bool nested = !quantized.nestedAbsmax.empty();
  // After the first misfit nothing more is loaded.
  auto part = [&](const std::string &to, const std::string &from) -> Status {
    return to.empty() || !problem.empty() ? Status() : loadPart(to, file, from, used, problem);
  };
  auto map = [&](const char *suffix, const auto &ours) -> Status {
    const std::string key = name + suffix;
    if (!file.has(key) || !problem.empty())
      return {};
    used.insert(key);
    WeightsFile::Tensor tensor;
    TRAINRT_TRY(file.tensor(key, /*inPlace=*/true, tensor));
    // Other values would make other weights of the same codes.
    if (!sameMap(tensor.array, ours))
      problem = "'" + key + "' has other values than the format's";
    return {};
  };

  WeightsFile::Tensor tensor;
  TRAINRT_TRY(file.tensor(name, /*inPlace=*/true, tensor));
  const std::string key = stateKey(file, name);
  if (!key.empty()) {
    used.insert(key);
    WeightsFile::Tensor state;
    TRAINRT_TRY(file.tensor(key, /*inPlace=*/true, state));
    // The description is JSON in a tensor of bytes.
    auto *text = static_cast<const char *>(state.array.data);
    const Json json = parseJson<Json>({text, size_t(state.array.bytes)});
    auto number = [&](const char *field, auto &value) {
      if (!json.is_object() || !json.contains(field) || !json[field].is_number())
        return false;
      // Numbers of any kind convert.
      json[field].get_to(value);
      return true;
    };
    int64_t block = 0, nestedBlocks = 0;
    std::vector<int64_t> shape;
    bool readable = number("blocksize", block) && json.contains("shape") &&
                    json["shape"].is_array() && json.contains("quant_type") &&
                    json["quant_type"].is_string();
    for (size_t i = 0; readable && i < json["shape"].size(); ++i) {
      readable = json["shape"][i].is_number_integer();
      if (readable)
        shape.push_back(json["shape"][i].get<int64_t>());
    }
    // Each field is checked before it is used: anybody may have written it.
    double offset = 0;
    const bool theirsNested = readable && number("nested_blocksize", nestedBlocks);
    if (!readable || (theirsNested && !number("nested_offset", offset))) {
      problem = "'" + key + "' is no description by bitsandbytes";
      return {};
    }
    // Compared as texts, which the message shows.
    const std::string theirs =
        describe(json["quant_type"].get<std::string>(), block, shape, theirsNested);
    const std::string ours =
        describe(nameOf(quantized.format), quantized.block, quantized.shape, nested);
    if (theirs != ours) {
      problem = "'" + name + "' is " + theirs + ", the package wants " + ours;
      return {};
    }
    // Blocks of statistics have one size here.
    if (theirsNested && nestedBlocks != nestedBlock) {
      problem = "'" + name + "' has statistics in blocks of " + std::to_string(nestedBlocks) +
                ", the package wants " + std::to_string(nestedBlock);
      return {};
    }
    TRAINRT_TRY(map(".quant_map", codeValues(quantized.format)));
    TRAINRT_TRY(part(quantized.absmax, name + ".absmax"));
    if (nested) {
      TRAINRT_TRY(map(".nested_quant_map", dynamicMap()));
      TRAINRT_TRY(part(quantized.nestedAbsmax, name + ".nested_absmax"));
      // A scalar in the description, a parameter of one element here.
      const float value = float(offset);
      if (problem.empty())
        TRAINRT_TRY(set(places.at(quantized.nestedOffset), &value));
    }
  } else if (tensor.array.dtype != decl.dtype || quantized.format == QuantFormat::Cast) {
    problem = "'" + name + "' is " + numpyName(tensor.array.dtype) + ", expected " +
              numpyName(quantized.dtype) + ", or " + nameOf(quantized.format) +
              " with its statistics";
  } else {
    // Our own names, or LLM.int8's of a row's absmax, beside the module's weight.
    std::string rows = quantized.rowAbsmax;
    if (!rows.empty() && !file.has(rows) && name.ends_with(".weight"))
      rows = name.substr(0, name.size() - 6) + "SCB";
    if (const std::string format = name + "_format"; file.has(format))
      used.insert(format);
    // Parts that the format does not have are empty.
    for (const std::string &own :
         {quantized.absmax, quantized.nestedAbsmax, quantized.nestedOffset})
      TRAINRT_TRY(part(own, own));
    TRAINRT_TRY(part(quantized.rowAbsmax, rows));
  }
  // Codes come last: a misfit of a part is told before.
  if (!problem.empty())
    return {};
  if (tensor.array.bytes != decl.staticBytes ||
      (quantized.format == QuantFormat::Int8 && tensor.array.shape != decl.staticShape)) {
    problem = "'" + name + "' has shape " + shapeText(tensor.array.shape) + ", expected " +
              shapeText(decl.staticShape);
    return {};
  }
  // Codes are read-only, and have no alignment.
  if (tensor.mapping && mayBeMapped(index)) {
    useMapped(index, static_cast<const unsigned char *>(tensor.array.data), tensor.mapping);
    return {};
  }
  return set(index, tensor.array.data);
}

} // namespace trainrt
