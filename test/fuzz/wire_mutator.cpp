// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A message is taken apart without a schema: a field of bytes that reads as a message is one (texts
// seldom do, and it harms nothing where they do). The tree is changed and written again.

#include "wire_mutator.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <string_view>
#include <tuple>

// Of libFuzzer; absent where the corpus is only replayed.
extern "C" __attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t limit);

namespace trainc::fuzz {
namespace {

enum Type : unsigned { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

struct Field {
  uint64_t number = 0;
  unsigned type = 0;
  uint64_t value = 0; // of a varint
  std::string bytes;  // of all others, unless it is a message
  bool isMessage = false;
  std::vector<Field> fields;
};
using Fields = std::vector<Field>;

bool readVarint(std::string_view &in, uint64_t &value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !in.empty(); shift += 7) {
    auto byte = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
    value |= uint64_t(byte & 127) << shift;
    if (!(byte & 128))
      return true;
  }
  return false;
}

std::optional<Fields> read(std::string_view in, unsigned depth) {
  Fields fields;
  while (!in.empty()) {
    Field field;
    uint64_t tag = 0, length = 0;
    if (!readVarint(in, tag) || tag >> 3 == 0 || tag >> 3 > 64)
      return std::nullopt;
    field.number = tag >> 3;
    field.type = tag & 7;
    if (field.type == Varint) {
      if (!readVarint(in, field.value))
        return std::nullopt;
      fields.push_back(std::move(field));
      continue;
    }
    if (field.type == Bytes) {
      if (!readVarint(in, length))
        return std::nullopt;
    } else if (field.type == Fixed64 || field.type == Fixed32) {
      length = field.type == Fixed64 ? 8 : 4;
    } else {
      return std::nullopt;
    }
    if (length > in.size())
      return std::nullopt;
    field.bytes = in.substr(0, length);
    in.remove_prefix(length);
    if (field.type == Bytes && depth && field.bytes.size() > 1)
      if (auto inner = read(field.bytes, depth - 1)) {
        field.isMessage = true;
        field.fields = std::move(*inner);
      }
    fields.push_back(std::move(field));
  }
  return fields;
}

void writeVarint(uint64_t value, std::string &out) {
  for (; value >= 128; value >>= 7)
    out.push_back(char(value | 128));
  out.push_back(char(value));
}

std::string write(const Fields &fields) {
  std::string out;
  for (const Field &field : fields) {
    writeVarint(field.number << 3 | field.type, out);
    if (field.type == Varint) {
      writeVarint(field.value, out);
      continue;
    }
    std::string content = field.isMessage ? write(field.fields) : field.bytes;
    if (field.type == Bytes)
      writeVarint(content.size(), out);
    out += content;
  }
  return out;
}

class Mutation {
public:
  Mutation(Fields &root, unsigned seed, const std::vector<std::string> &words)
      : random(seed), words(words) {
    collect(root);
  }

  void apply() {
    if (places.empty())
      return;
    auto [list, at] = places[random() % places.size()];
    Field &field = (*list)[at];
    switch (random() % 12) {
    case 0:
      list->erase(list->begin() + at);
      break;
    case 1:
      list->insert(list->begin() + at, Field(field));
      break;
    case 2:
      std::swap(field, (*list)[random() % list->size()]);
      break;
    case 3: { // a field of the same number from elsewhere
      auto [other, from] = places[random() % places.size()];
      for (unsigned i = 0; i < 32 && (*other)[from].number != field.number; ++i)
        std::tie(other, from) = places[random() % places.size()];
      Field copy = (*other)[from];
      list->insert(list->begin() + at, std::move(copy));
      break;
    }
    case 4:
      field.number = 1 + random() % 30;
      break;
    default:
      change(field);
    }
  }

private:
  void collect(Fields &fields) {
    for (size_t i = 0; i < fields.size(); ++i) {
      places.emplace_back(&fields, i);
      if (fields[i].isMessage)
        collect(fields[i].fields);
      else if (fields[i].type == Bytes)
        texts.push_back(fields[i].bytes);
    }
  }

  void change(Field &field) {
    if (field.type == Varint) {
      static constexpr uint64_t odd[] = {0,
                                         1,
                                         2,
                                         3,
                                         uint64_t(-1),
                                         uint64_t(-2),
                                         1u << 20,
                                         1u << 31,
                                         uint64_t(1) << 40,
                                         uint64_t(1) << 62,
                                         INT64_MAX,
                                         uint64_t(1) << 63};
      unsigned kind = random() % 4;
      field.value = kind == 0   ? odd[random() % std::size(odd)]
                    : kind == 1 ? random() % 32
                    : kind == 2 ? field.value + 1
                                : field.value - 1;
    } else if (field.isMessage) {
      if (field.fields.size() > 1)
        std::shuffle(field.fields.begin(), field.fields.end(), random);
    } else if (field.type == Bytes && random() % 3) {
      // Names of this message, or words of its language.
      bool word = texts.empty() || random() % 2;
      if (!word || !words.empty())
        field.bytes = word ? words[random() % words.size()] : texts[random() % texts.size()];
    } else if (LLVMFuzzerMutate && !field.bytes.empty()) {
      size_t size = field.bytes.size();
      size_t limit = field.type == Bytes ? size + 8 : size;
      field.bytes.resize(limit);
      size_t now = LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(field.bytes.data()), size, limit);
      field.bytes.resize(field.type == Bytes ? now : size);
    }
  }

  std::mt19937 random;
  const std::vector<std::string> &words;
  std::vector<std::pair<Fields *, size_t>> places;
  std::vector<std::string> texts;
};

} // namespace

size_t mutateWire(uint8_t *data, size_t size, size_t limit, unsigned seed,
                  const std::vector<std::string> &words) {
  auto fields = read({reinterpret_cast<const char *>(data), size}, 12);
  // Now and then the lengths, too.
  if (!fields || seed % 32 == 0)
    return LLVMFuzzerMutate ? LLVMFuzzerMutate(data, size, limit) : size;
  for (unsigned i = 0, count = 1 + seed % 3; i < count; ++i)
    Mutation(*fields, seed * 31 + i, words).apply();
  std::string result = write(*fields);
  if (result.size() > limit)
    return size;
  std::memcpy(data, result.data(), result.size());
  return result.size();
}

} // namespace trainc::fuzz
