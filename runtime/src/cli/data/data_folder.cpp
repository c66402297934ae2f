// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Folders that `trainc data` writes (docs/data.md): index.json, which was written last, and shards
// that stay mapped. Everything but the values themselves is checked when a folder is opened.
#include "cli/data/row_source.h"

#include "cli/data/row_values.h"
#include "cli/failure.h"
#include "cli/format.h"
#include "format/hash.h"
#include "format/json.h"
#include "io/convert.h"
#include "io/safetensors.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

namespace trainrt::run {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Types by their names in safetensors files.
/// In the order of trainrt_dtype: the index is the type.
constexpr const char *typeNames[] = {"F32", "F64", "F16", "BF16", "I8",  "I16", "I32",
                                     "I64", "U8",  "U16", "U32",  "U64", "BOOL"};

struct Shard {
  std::string file;  ///< within the folder
  int64_t first = 0; ///< the number of its first row
  int64_t rows = 0;
  SafetensorsReader reader;
};

/// Where the rows of ragged columns begin: an array of every shard, which may be unaligned.
struct Group {
  std::string name;
  std::vector<const unsigned char *> offsets; ///< of every shard
  int64_t longest = 0;

  /// `row` may be the number of the shard's rows: that is where the last one ends.
  int64_t at(size_t shard, int64_t row) const {
    assert(shard < offsets.size() && "an array of every shard");
    int64_t value;
    std::memcpy(&value, offsets[shard] + row * 8, sizeof value);
    return value;
  }
};

class DataFolder;

/// Owned by its folder, so what it points to lives as long as it does.
class FolderColumn : public RowColumn {
public:
  int64_t length(int64_t row) const override;
  std::string misfit(trainrt_dtype type) const override;
  void copy(int64_t row, int64_t places, trainrt_dtype type, char *to) const override;

private:
  friend class DataFolder;
  const DataFolder *folder = nullptr;
  const Group *group = nullptr;
  std::optional<Number> constant; ///< then nothing is stored
  Number pad = int64_t(0);
  int64_t each = 1;                        ///< elements of a row that is not ragged
  std::vector<const unsigned char *> data; ///< of every shard
};

class DataFolder : public RowSource {
public:
  /// In this order: each reads what the one before has checked.
  explicit DataFolder(const std::string &path) : path(path) {
    readIndex();
    openShards();
    readColumns();
  }

  std::string whereIs(int64_t row) const override {
    // Numbers within the file are what a person finds.
    const auto [shard, local] = locate(row);
    return "row " + std::to_string(local) + " of " + shown(shards[shard].file);
  }
  uint64_t identity() const override {
    // Shards are told apart by their hashes, not by reading them.
    // The hashes are in the index, as sizes are.
    const std::string text = Json{index["rows"], index["columns"], index["shards"]}.dump();
    return fnv1a64(text.data(), text.size());
  }

  /// The shard of a row, and its number there.
  std::pair<size_t, int64_t> locate(int64_t row) const {
    // The last shard that begins at or before the row.
    const auto next = std::upper_bound(shards.begin(), shards.end(), row,
                                       [](int64_t r, const Shard &s) { return r < s.first; });
    const auto shard = size_t(next - shards.begin()) - 1;
    assert(shard < shards.size() && "rows of the folder");
    return {shard, row - shards[shard].first};
  }

private:
  /// All failures name the folder, the index or the shard, and what to do.
  [[noreturn]] void fail(const std::string &what) const {
    throw Failure(exitInput, path + ": " + what);
  }
  [[noreturn]] void failIndex(const std::string &what) const {
    throw Failure(exitInput, path + "/index.json: " + what + "; write the folder again");
  }
  [[noreturn]] void failShard(const Shard &shard, const std::string &what) const {
    throw Failure(exitInput, path + "/" + shown(shard.file) + ": " + what +
                                 ": it is damaged, or another run's; write the folder again");
  }
  void readIndex();
  std::string whatElse() const;
  void openShards();
  void readColumns();
  void readColumn(const std::string &name, const Json &said);
  const Group *groupOf(const std::string &name);
  int64_t count(const Json &object, const char *key, const std::string &where) const;
  Number number(const Json &object, const char *key, const std::string &where) const;
  const ArrayView &tensor(const Shard &shard, const std::string &name, trainrt_dtype dtype,
                          const std::vector<int64_t> &wanted) const;

  const std::string path;
  Json index;
  std::vector<Shard> shards;
  std::map<std::string, std::unique_ptr<Group>> groups;
};

std::string DataFolder::whatElse() const {
  // A guess at what the folder is instead, from what lies in it.
  std::error_code ignored;
  auto has = [&](const char *name) { return fs::exists(fs::path(path) / name, ignored); };
  if (has("dataset_info.json") || has("state.json") || has("dataset_dict.json"))
    return "it is one of Hugging Face's datasets: `trainc data` tokenizes it";
  if (has("config.json"))
    return "it is a model: data comes behind --data, weights behind --weights";
  for (fs::directory_iterator it(path, ignored), end; !ignored && it != end; it.increment(ignored))
    if (it->path().filename().string().starts_with("shard-"))
      return "it has shards: the program that wrote them has not come to its end";
  return "`trainc data` writes it last";
}

/// The index is written last, so a folder that has one is whole, or was changed by hand.
void DataFolder::readIndex() {
  std::shared_ptr<const MappedFile> file;
  std::error_code ignored;
  if (!fs::exists(fs::path(path) / "index.json", ignored))
    fail("this folder is no data: it has no index.json; " + whatElse());
  if (Status status = MappedFile::open(path + "/index.json", file); !status.ok())
    throw Failure(exitInput, status.message());
  const std::string_view text(reinterpret_cast<const char *>(file->data()), file->size());
  // Not an object where it nests too deep, too.
  index = parseJson<Json>(text);
  if (!index.is_object())
    failIndex(notJsonObject(text));
  const auto format = index.find("format");
  if (format == index.end() || *format != "trainc-data")
    fail("this folder is no data: its index.json does not say \"format\": \"trainc-data\"");
  // Another version may mean something else by the same keys.
  if (const int64_t version = count(index, "version", ""); version != 1)
    failIndex("version " + std::to_string(version) +
              " is of another trainc, this one reads version 1");
  rowCount = count(index, "rows", "");
  if (!index.contains("columns") || !index["columns"].is_object() || index["columns"].empty())
    failIndex("'columns' is no object of columns");
  if (!index.contains("shards") || !index["shards"].is_array())
    failIndex("'shards' is no list");
}

int64_t DataFolder::count(const Json &object, const char *key, const std::string &where) const {
  const auto at = object.find(key);
  // Far from overflow, so that sums and products of a few are safe.
  if (at == object.end() || !at->is_number_unsigned() ||
      at->get<uint64_t>() > uint64_t(INT64_MAX) / 64)
    failIndex(where + "'" + key + "' must be a count");
  return int64_t(at->get<uint64_t>());
}

/// 0 where it is absent; booleans are numbers of columns of booleans.
Number DataFolder::number(const Json &object, const char *key, const std::string &where) const {
  const auto at = object.find(key);
  if (at == object.end())
    return int64_t(0);
  if (at->is_boolean())
    return int64_t(at->get<bool>());
  if (at->is_number_integer())
    return at->get<int64_t>();
  if (!at->is_number())
    failIndex(where + "'" + key + "' is no number");
  return at->get<double>();
}

/// Afterwards the shards that have rows are mapped, in their order, and each row is in exactly one.
void DataFolder::openShards() {
  int64_t first = 0;
  for (const Json &said : index["shards"]) {
    const std::string where = "shard " + std::to_string(shards.size()) + ": ";
    if (!said.is_object() || !said.contains("file") || !said["file"].is_string())
      failIndex(where + "'file' is no name");
    Shard shard;
    shard.file = said["file"].get<std::string>();
    // A name with a slash could lead out of the folder.
    if (shard.file.empty() || shard.file.find('/') != std::string::npos || shard.file == "..")
      failIndex(where + "'" + shown(shard.file) + "' is no file of the folder");
    shard.first = first;
    shard.rows = count(said, "rows", where);
    const std::string name = path + "/" + shard.file;
    // Mapped: nothing but headers is read here.
    std::shared_ptr<const MappedFile> file;
    if (Status status = MappedFile::open(name, file); !status.ok())
      throw Failure(exitInput, status.message() + "; index.json says that it has rows " +
                                   std::to_string(first) + " to " +
                                   std::to_string(first + shard.rows - 1));
    // A shard that was cut off has the right name and another size.
    if (const int64_t size = count(said, "size", where); uint64_t(size) != file->size())
      failShard(shard, "the file has " + std::to_string(file->size()) + " bytes, index.json says " +
                           std::to_string(size));
    if (Status status = SafetensorsReader::open(std::move(file), shard.reader); !status.ok())
      throw Failure(exitInput, status.message());
    // Overflow is far: counts are limited, and so are lists of a file.
    first += shard.rows;
    if (shard.rows) // the others hold nothing, and would be in the way of `locate`
      shards.push_back(std::move(shard));
  }
  // Ends that do not meet would make rows of nowhere.
  if (first != rowCount)
    failIndex("it says " + std::to_string(rowCount) + " rows, its shards have " +
              std::to_string(first));
  if (rowCount == 0)
    fail("it has no rows");
}

/// Points into the shard's file. Of exactly this type and shape, so readers of rows need no checks.
const ArrayView &DataFolder::tensor(const Shard &shard, const std::string &name,
                                    trainrt_dtype dtype, const std::vector<int64_t> &wanted) const {
  const SafetensorsReader::Entry *entry = shard.reader.find(name);
  // Says so by its own name: shards may be of different runs.
  if (!entry)
    failShard(shard, "there is no tensor '" + shown(name) + "' in it");
  auto text = [](DType type, const std::vector<int64_t> &shape) {
    std::string result = std::string(nameOf(type)) + " [";
    for (size_t i = 0; i < shape.size(); ++i)
      result += (i ? ", " : "") + std::to_string(shape[i]);
    return result + "]";
  };
  const ArrayView &array = entry->array;
  if (array.dtype != DType(dtype) || array.shape != wanted)
    failShard(shard, "tensor '" + shown(name) + "' is " + text(array.dtype, array.shape) +
                         ", and must be " + text(DType(dtype), wanted));
  return array;
}

/// Owned by `groups`. Reads all offsets once: a length that is asked for later is never negative.
const Group *DataFolder::groupOf(const std::string &name) {
  /// Checked once for all columns that share it.
  auto [at, fresh] = groups.try_emplace(name);
  if (!fresh)
    return at->second.get();
  at->second = std::make_unique<Group>();
  Group &group = *at->second;
  group.name = name;
  for (size_t s = 0; s < shards.size(); ++s) {
    const Shard &shard = shards[s];
    const ArrayView &array = tensor(shard, name, TRAINRT_I64, {shard.rows + 1});
    group.offsets.push_back(static_cast<const unsigned char *>(array.data));
    if (group.at(s, 0) != 0)
      failShard(shard, "tensor '" + shown(name) + "' does not begin with 0");
    // Ascending, so that no row has a negative length; the last is the data's size.
    for (int64_t row = 0; row < shard.rows; ++row) {
      int64_t length;
      if (__builtin_sub_overflow(group.at(s, row + 1), group.at(s, row), &length) || length < 0)
        failShard(shard, "row " + std::to_string(row) + " (" + std::to_string(shard.first + row) +
                             " of the folder) ends before it begins");
      // What columns of it are padded to, at most.
      group.longest = std::max(group.longest, length);
    }
  }
  return &group;
}

void DataFolder::readColumns() {
  // In the order of their names, as JSON objects are kept.
  for (const auto &[name, said] : index["columns"].items())
    readColumn(name, said);
}

void DataFolder::readColumn(const std::string &name, const Json &said) {
  const std::string where = "column '" + shown(name) + "': ";
  if (!said.is_object())
    failIndex(where + "it is no object");
  auto column = std::make_unique<FolderColumn>();
  column->name = name;
  column->folder = this;
  const auto type = said.find("dtype");
  // By the name that safetensors has for it.
  const auto *known = std::find_if(std::begin(typeNames), std::end(typeNames), [&](auto *text) {
    return type != said.end() && type->is_string() && *type == text;
  });
  if (known == std::end(typeNames))
    failIndex(where + "'dtype' is none of safetensors' types");
  column->dtype = trainrt_dtype(known - typeNames);
  const auto ragged = said.find("ragged");
  if (ragged != said.end() && !ragged->is_boolean())
    failIndex(where + "'ragged' is neither true nor false");
  column->ragged = ragged != said.end() && ragged->get<bool>();
  column->pad = number(said, "pad", where);
  if (said.contains("constant"))
    column->constant = number(said, "constant", where);
  // What is filled in has to be a value of the column.
  for (const Number &value : {column->pad, column->constant.value_or(int64_t(0))})
    if (!canBe(column->dtype, value))
      failIndex(where + "'pad' or 'constant' is no value of its type");
  // The offsets' name, as several columns may share them.
  if (column->ragged) {
    const auto offsets = said.find("offsets");
    if (offsets != said.end() && !offsets->is_string())
      failIndex(where + "'offsets' is no name of a tensor");
    column->group = groupOf(offsets == said.end() ? "offsets" : offsets->get<std::string>());
    column->shape = {column->group->longest};
  } else if (const auto shape = said.find("shape"); shape != said.end()) {
    if (!shape->is_array() || shape->size() > 16)
      failIndex(where + "'shape' is no list of sizes");
    for (const Json &extent : *shape) {
      column->shape.push_back(count(Json{{"shape", extent}}, "shape", where));
      // The product as well: it is multiplied by rows later.
      if (__builtin_mul_overflow(column->each, column->shape.back(), &column->each))
        failIndex(where + "'shape' is impossible");
    }
  }
  // The data of each shard as the index says, before any of it is read.
  for (size_t s = 0; s < shards.size() && !column->constant; ++s) {
    std::vector<int64_t> wanted{shards[s].rows};
    // As many elements as the last offset says.
    if (column->ragged)
      wanted[0] = column->group->at(s, shards[s].rows);
    else
      wanted.insert(wanted.end(), column->shape.begin(), column->shape.end());
    column->data.push_back(
        static_cast<const unsigned char *>(tensor(shards[s], name, column->dtype, wanted).data));
  }
  list.push_back(std::move(column));
}

/// Offsets were checked when the folder was opened.
int64_t FolderColumn::length(int64_t row) const {
  assert(group && "only ragged columns have lengths");
  const auto [shard, local] = folder->locate(row);
  return group->at(shard, local + 1) - group->at(shard, local);
}

/// By types and by what is filled in; values are not read.
std::string FolderColumn::misfit(trainrt_dtype type) const {
  // Padding and constants are converted like values.
  if (!canBe(type, pad))
    return "its padding is no value of that type";
  if (constant ? !canBe(type, *constant) : !isLossless(dtype, type))
    return "the column is " + std::string(trainrt_dtype_name(dtype)) +
           ", and the conversion could lose values";
  return {};
}

/// From any thread: nothing is changed. Values are converted without loss, which `misfit` was asked
/// for.
void FolderColumn::copy(int64_t row, int64_t places, trainrt_dtype type, char *to) const {
  const auto [shard, local] = folder->locate(row);
  // Elements of a shard are counted from its own beginning.
  const int64_t begin = group ? group->at(shard, local) : local * each;
  const int64_t count = group ? group->at(shard, local + 1) - begin : each;
  assert(places >= count && "a row fits into what it is copied to");
  if (constant)
    fill(*constant, type, count, to);
  else
    convertElements(data[shard] + size_t(begin) * trainrt_dtype_size(dtype), DType(dtype), to,
                    DType(type), count);
  // Behind the row.
  fill(pad, type, places - count, to + size_t(count) * trainrt_dtype_size(type));
}

} // namespace

std::unique_ptr<RowSource> openDataFolder(const std::string &path) {
  return std::make_unique<DataFolder>(path);
}

} // namespace trainrt::run
