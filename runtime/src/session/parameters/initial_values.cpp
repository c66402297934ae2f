// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// First values that no file has: from a random generator keyed on (seed, name), so that they do not
// depend on order or threads, or by the rule that the manifest has for a parameter.

#include "format/hash.h"
#include "session/parameters/parameters.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

namespace trainrt {

/// Salmon et al. 2011, ten rounds; the same as the compiler's and the kernels'.
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
  assert(isFloat(dtype) && "other parameters are zeros");
  if (dtype == DType::F32) {
    std::memcpy(target + index * 4, &single, 4);
  } else if (dtype == DType::F64) {
    std::memcpy(target + index * 8, &value, 8);
  } else if (dtype == DType::BF16) {
    // To nearest, ties to even: initial values are finite.
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

/// The four elements of a group, which share one call of the generator, keyed on (seed, hash).
using Group = std::function<void(int64_t group, double values[4])>;

/// The counter is (group, hash): no two names or groups share numbers, but by a collision of
/// hashes.
void randomWords(int64_t group, uint64_t seed, uint64_t hash, uint32_t words[4]) {
  const uint32_t counter[4] = {uint32_t(group), uint32_t(group >> 32), uint32_t(hash),
                               uint32_t(hash >> 32)};
  const uint32_t key[2] = {uint32_t(seed), uint32_t(seed >> 32)};
  philox4x32(counter, key, words);
}

Group normalGroups(uint64_t seed, uint64_t hash, double std) {
  return [=](int64_t group, double values[4]) {
    uint32_t words[4];
    randomWords(group, seed, hash, words);
    // Never log(0): the first word is moved up by one.
    for (int pair = 0; pair < 4; pair += 2) { // Box and Muller
      double radius = std::sqrt(-2 * std::log((words[pair] + 1.0) * 0x1p-32));
      double angle = 2 * M_PI * (words[pair + 1] * 0x1p-32);
      values[pair] = std * radius * std::cos(angle);
      values[pair + 1] = std * radius * std::sin(angle);
    }
  };
}

Group uniformGroups(uint64_t seed, uint64_t hash, double bound) {
  return [=](int64_t group, double values[4]) {
    uint32_t words[4];
    randomWords(group, seed, hash, words);
    // The middle of each step: symmetric, and never the bound itself.
    for (int i = 0; i < 4; ++i)
      values[i] = bound * ((words[i] + 0.5) * 0x1p-31 - 1);
  };
}

Group constantGroups(double value) {
  return [=](int64_t, double values[4]) { std::fill(values, values + 4, value); };
}

/// Numbers of each kind; values do not depend on how a range is cut.
Group groupsOf(const Manifest::Init &init, uint64_t seed, uint64_t hash) {
  switch (init.kind) {
  case Manifest::Init::Kind::Uniform:
    return uniformGroups(seed, hash, init.value);
  case Manifest::Init::Kind::Normal:
    return normalGroups(seed, hash, init.value);
  case Manifest::Init::Kind::Constant:
  case Manifest::Init::Kind::Norms: // of values that may be later ones: not here
    break;
  }
  return constantGroups(init.value);
}

Device::Source sourceOf(DType dtype, Group groups, ThreadPool &pool) {
  return [=, &pool](unsigned char *to, int64_t beginByte, int64_t endByte) {
    assert(beginByte % 64 == 0 && "a device writes in such pieces");
    // `beginByte` is a multiple of 64: the first group is whole.
    const int64_t size = int64_t(sizeOf(dtype)), first = beginByte / size, last = endByte / size;
    const int64_t firstGroup = first / 4;
    // The last group may be partly outside.
    pool.parallelFor((last - first + 3) / 4, 4096, [&](unsigned, int64_t begin, int64_t end) {
      for (int64_t group = firstGroup + begin; group < firstGroup + end; ++group) {
        double values[4];
        groups(group, values);
        for (int64_t i = group * 4; i < std::min(last, group * 4 + 4); ++i)
          storeElement(to, dtype, i - first, values[i - group * 4]);
      }
    });
  };
}

} // namespace

Status ParameterStore::initialize(size_t index, int64_t seed) {
  const TensorDecl &decl = package->program().parameters[index];
  const Manifest::Init &init = *package->parameter(index).init;
  // Norms are of values that are loaded later: they wait.
  if (init.kind == Manifest::Init::Kind::Norms) {
    norms.push_back(index);
    return {};
  }
  const uint64_t hash = fnv1a64(decl.name.data(), decl.name.size());
  return store(index,
               sourceOf(decl.dtype, groupsOf(init, uint64_t(seed), hash), device->threads()));
}

Status ParameterStore::randomize(int64_t seed, double std) {
  for (size_t i = 0; i < slots.size(); ++i) {
    const TensorDecl &decl = package->program().parameters[i];
    const Manifest::Tensor &entry = package->parameter(i);
    // Statistics come with what they are of.
    if (!entry.partOf.empty())
      continue;
    if (entry.init) {
      // Rules of the manifest, as in a normal load.
      TRAINRT_TRY(initialize(i, seed));
      continue;
    }
    // Of frozen values only their own will do: weights that were trained, tables and masks.
    if (!entry.trainable) {
      Status status = fromPackage(i, /*orRandom=*/false);
      if (status.code() == Code::MissingWeights)
        return status.within("random values are for what is trained, and '" + decl.name +
                             "' is not: ");
      TRAINRT_TRY(status);
      continue;
    }
    const uint64_t hash = fnv1a64(decl.name.data(), decl.name.size());
    const Group normal = normalGroups(uint64_t(seed), hash, std);
    // As layers begin in PyTorch: norms with ones, biases with zeros.
    bool isNorm = decl.staticShape.size() == 1 && decl.name.ends_with("weight");
    if (!isFloat(decl.dtype) || decl.name.ends_with("bias")) {
      TRAINRT_TRY(store(i, [](unsigned char *to, int64_t begin, int64_t end) {
        std::memset(to, 0, size_t(end - begin));
      }));
      continue;
    }
    TRAINRT_TRY(
        store(i, sourceOf(decl.dtype, isNorm ? constantGroups(1) : normal, device->threads())));
  }
  return {};
}

} // namespace trainrt
