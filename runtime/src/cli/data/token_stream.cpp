// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Streams of tokens as windows: nanoGPT's .bin is 16-bit tokens and nothing else, llm.c's has a
// header of 256 integers before them.
#include "cli/data/row_source.h"

#include "cli/data/row_values.h"
#include "cli/failure.h"
#include "cli/format.h"
#include "format/file.h"
#include "format/hash.h"
#include "io/convert.h"
#include "io/permutation.h"
#include "trainrt/data.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace trainrt::run {

namespace {

// Of llm.c; only the first three numbers mean something here: magic, version, tokens.
constexpr size_t headerBytes = 256 * 4;

class TokenStream;

/// What one input gets of a window.
class WindowColumn : public RowColumn {
public:
  WindowColumn(const TokenStream &stream, std::string input, int64_t behind)
      : stream(stream), behind(behind) {
    name = std::move(input);
  }
  int64_t length(int64_t) const override { return shape[0]; }
  std::string misfit(trainrt_dtype type) const override;
  void copy(int64_t row, int64_t places, trainrt_dtype type, char *to) const override;

private:
  const TokenStream &stream;
  const int64_t behind; ///< tokens further on
};

/// A mask: all tokens are real.
class OnesColumn : public RowColumn {
public:
  explicit OnesColumn(std::string input) { name = std::move(input); }
  int64_t length(int64_t) const override { return shape[0]; }
  std::string misfit(trainrt_dtype) const override { return {}; }
  void copy(int64_t, int64_t places, trainrt_dtype type, char *to) const override {
    fill(int64_t(1), type, places, to);
  }
};

class TokenStream : public RowSource {
public:
  TokenStream(const Package &package, const std::string &path, const WindowOptions &windows);

  std::string whereIs(int64_t row) const override {
    return "the window from token " + std::to_string(start(row)) + " on";
  }
  uint64_t identity() const override;
  int64_t inEpoch(int64_t row, int64_t epoch) const override {
    return phases > 1 ? epoch * rowCount + row : row;
  }
  void seed(uint64_t key) override { state = mixBits(key ^ 0x77696e646f777321); }
  std::string note() const override { return text; }

  /// The first token of a window that `inEpoch` named.
  /// `row` counts windows over all epochs (`inEpoch`): its quotient is the epoch and with it the
  /// phase, its rest the window. So a row's place depends on nothing but the seed, and order and
  /// threads of loading do not matter.
  int64_t start(int64_t row) const {
    const uint64_t epoch = uint64_t(row / rowCount);
    const int64_t phase = phases > 1 ? int64_t(mixBits(state + epoch) % uint64_t(phases)) : 0;
    return phase + row % rowCount * length;
  }

private:
  friend class WindowColumn;
  void readHeader();
  void chooseInputs(const Package &package, const WindowOptions &windows);
  [[noreturn]] void fail(const std::string &what) const {
    throw Failure(exitInput, path + ": " + what);
  }

  const std::string path;
  std::shared_ptr<const MappedFile> file;
  const unsigned char *tokens = nullptr;
  int64_t count = 0, length = 0;
  trainrt_dtype dtype = TRAINRT_U16;
  /// In how many places the first window of an epoch may begin.
  int64_t phases = 1;
  uint64_t state = 0;
  std::string text;
};

/// Null where the package has no such input.
const trainrt_tensor_info *inputNamed(const Package &package, const std::string &name) {
  for (const trainrt_tensor_info &input : package.inputs)
    if (name == input.name)
      return &input;
  return nullptr;
}

/// Afterwards `tokens` are `count` elements of `dtype`, inside of the mapped file.
void TokenStream::readHeader() {
  if (Status status = MappedFile::open(path, file); !status.ok())
    throw Failure(exitInput, status.message());
  size_t begin = 0;
  int32_t header[3] = {};
  // A nanoGPT file may be shorter than a header; then the magic numbers stay 0 and do not match.
  if (file->size() >= headerBytes)
    std::memcpy(header, file->data(), sizeof header);
  const bool wide = header[0] == 20240801;
  if (wide || header[0] == 20240520) {
    if (header[1] != 1)
      fail("version " + std::to_string(header[1]) + " of llm.c's header is not known, 1 is");
    begin = headerBytes;
    dtype = wide ? TRAINRT_U32 : TRAINRT_U16;
  }
  // What is no multiple of a token has another layout, or was cut: reading the rest would be a
  // guess.
  const size_t size = trainrt_dtype_size(dtype), bytes = file->size() - begin;
  if (bytes % size)
    fail("its " + std::to_string(bytes) + " bytes are no tokens of " + std::to_string(size) +
         " bytes each: it is cut short, or neither nanoGPT's nor llm.c's .bin");
  tokens = file->data() + begin;
  count = int64_t(bytes / size);
  if (begin && count != header[2])
    fail("its header says " + std::to_string(header[2]) + " tokens, the file has " +
         std::to_string(count) + ": it is damaged");
}

/// Afterwards there is a column for each input that gets tokens, and one of ones for each of their
/// masks; and `length` is not 0.
void TokenStream::chooseInputs(const Package &package, const WindowOptions &windows) {
  std::vector<std::string> inputs = windows.inputs;
  if (inputs.empty()) {
    if (!inputNamed(package, "input_ids"))
      fail("--bin-inputs NAME,... must say which inputs get the tokens: the model has no input "
           "'input_ids'");
    inputs = {"input_ids"};
    if (inputNamed(package, "labels"))
      inputs.push_back("labels");
  }
  for (const std::string &name : inputs) {
    if (!inputNamed(package, name))
      throw Failure(exitInput, "--bin-inputs: the model has no input '" + shown(name) + "'");
    if (std::count(inputs.begin(), inputs.end(), name) > 1)
      throw Failure(exitInput, "--bin-inputs names '" + shown(name) + "' twice");
    const bool first = name == inputs.front();
    // `*this` is named before it is complete: a column keeps the reference and reads it when it
    // copies.
    list.push_back(std::make_unique<WindowColumn>(*this, name, windows.shift && !first));
  }
  if (windows.shift && inputs.size() < 2)
    throw Failure(exitInput, "--bin-shift gives every input but the first the next tokens, and "
                             "there is one input only (--bin-inputs)");
  // What masks the padding of tokens that have none.
  for (size_t i = 0; i < trainrt_package_token_input_count(package.handle.get()); ++i) {
    trainrt_token_input found = trainrt_token_input_default();
    ErrorSlot error;
    error.check(trainrt_package_token_input(package.handle.get(), i, &found, error));
    // Only masks of inputs that get tokens here, and none that --bin-inputs gave tokens already.
    if (!found.mask || find(found.mask) || !find(found.input))
      continue;
    list.push_back(std::make_unique<OnesColumn>(found.mask));
    text += std::string(text.empty() ? "" : ", ") + "'" + shown(found.mask) + "' is 1 everywhere";
  }
  // A fixed size of the model is the window's, too.
  for (const std::string &name : inputs) {
    const trainrt_tensor_info &input = *inputNamed(package, name);
    if (!length && input.rank == 2 && input.dims[1].value > 0)
      length = input.dims[1].value;
  }
  if (!length)
    fail("--window N must say how many tokens a row has");
}

TokenStream::TokenStream(const Package &package, const std::string &path,
                         const WindowOptions &windows)
    : path(path), length(windows.length.value_or(0)) {
  readHeader();
  chooseInputs(package, windows);
  assert(length > 0);
  const int64_t available = count - windows.shift;
  if (available < length)
    fail("it has " + std::to_string(count) + " tokens, too few for a window of " +
         std::to_string(length) + (windows.shift ? " and the token behind it" : ""));
  rowCount = available / length;
  if (windows.random) {
    // Every window of an epoch fits, wherever the first one begins.
    rowCount = std::max<int64_t>((available - (length - 1)) / length, 1);
    assert(rowCount * length <= available);
    // The last window that begins latest ends with the last token: phases - 1 + rowCount * length
    // <= available.
    phases = std::min(length, available - rowCount * length + 1);
  }
  // The columns' shapes come last: only now is `length` known.
  for (const std::unique_ptr<RowColumn> &column : list) {
    column->shape = {length};
    column->dtype = dtype;
  }
}

/// Neither seed nor epoch is in it: they decide where windows begin, not what the file holds.
uint64_t TokenStream::identity() const {
  // Of large files 64 pieces from begin to end, so that a resumed run notices other data without
  // reading all of it; lengths and names are hashed in any case.
  constexpr uint64_t most = 1 << 20, pieces = 64, piece = most / pieces;
  uint64_t hash = fnv1a64(&count, sizeof count);
  hash = fnv1a64(&length, sizeof length, hash);
  hash = fnv1a64(&dtype, sizeof dtype, hash);
  for (const std::unique_ptr<RowColumn> &column : list)
    hash = fnv1a64(column->name.c_str(), column->name.size() + 1, hash);
  const uint64_t bytes = uint64_t(count) * trainrt_dtype_size(dtype);
  for (uint64_t i = 0; bytes > most && i < pieces; ++i)
    hash = fnv1a64(tokens + (bytes - piece) / (pieces - 1) * i, piece, hash);
  return bytes > most ? hash : fnv1a64(tokens, bytes, hash);
}

std::string WindowColumn::misfit(trainrt_dtype type) const {
  return isLossless(TRAINRT_U16, type) && trainrt_dtype_size(type) >= 4 && type != TRAINRT_F32
             ? ""
             : "tokens need an integer of at least 32 bits";
}

void WindowColumn::copy(int64_t row, int64_t places, trainrt_dtype type, char *to) const {
  const int64_t begin = stream.start(row) + behind;
  assert(begin >= 0 && begin + places <= stream.count);
  // `start` plus `behind` plus the window's length lies in the file: `available` left `behind` out.
  const size_t size = trainrt_dtype_size(dtype);
  const unsigned char *from = stream.tokens + size_t(begin) * size;
  if (isLossless(dtype, type))
    return convertElements(from, DType(dtype), to, DType(type), places);
  // u32 as i32: no vocabulary has so many tokens, but a damaged file might.
  for (int64_t i = 0; i < places; ++i) {
    uint32_t token;
    std::memcpy(&token, from + size_t(i) * size, sizeof token);
    if (token > uint32_t(INT32_MAX))
      throw Failure(exitInput, stream.path + ": token " + std::to_string(begin + i) + " is " +
                                   std::to_string(token) + ", which input '" + shown(name) +
                                   "' (i32) cannot hold");
    std::memcpy(to + i * 4, &token, sizeof token);
  }
}

} // namespace

std::unique_ptr<RowSource> openTokenStream(const Package &package, const std::string &path,
                                           const WindowOptions &windows) {
  return std::make_unique<TokenStream>(package, path, windows);
}

} // namespace trainrt::run
