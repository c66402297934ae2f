// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the C API says about data: inputs of tokens, lengths of rows, and samplers.

#include "trainrt/data.h"
#include "capi/internal.h"
#include "session/data/density.h"

using namespace trainrt;
using namespace trainrt::capi;

extern "C" {

size_t trainrt_package_token_input_count(const trainrt_package *package) {
  size_t count = 0;
  // An input may have several roles, each counted for itself.
  if (package)
    for (const Manifest::Tensor &input : package->impl->manifest().inputs)
      count += input.tokens.size();
  return count;
}

/// Texts are the package's.
trainrt_status trainrt_package_token_input(const trainrt_package *package, size_t index,
                                           trainrt_token_input *input, trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!package || !input)
      return nullArgument(package ? "input" : "package");
    // Roles in the order of the inputs.
    size_t at = index;
    for (const Manifest::Tensor &tensor : package->impl->manifest().inputs) {
      if (at >= tensor.tokens.size()) {
        at -= tensor.tokens.size();
        continue;
      }
      const Manifest::Tokens &tokens = tensor.tokens[at];
      trainrt_token_input result = trainrt_token_input_default();
      result.input = tensor.name.c_str();
      result.role = tokens.isLabel ? TRAINRT_LABEL : TRAINRT_EMBED;
      result.pad = tokens.pad.value_or(0);
      // One of both says what padding is.
      result.mask = tokens.pad ? nullptr : tokens.mask.c_str();
      return writeStruct(result, "input", input);
    }
    return fail(Code::InvalidArgument, "there is no input of tokens ", index);
  });
}

/// `rows` says how many the caller expects: another number is an error, not a shorter or longer
/// result.
trainrt_status trainrt_package_row_lengths(const trainrt_package *package,
                                           const trainrt_batch *arrays, const char *symbol,
                                           int64_t *lengths, size_t rows, trainrt_error **error) {
  // Rows without lengths would be written nowhere.
  return guard(error, [&]() -> Status {
    if (!package || !arrays || (rows && !lengths))
      return nullArgument(!package ? "package" : !arrays ? "arrays" : "lengths");
    const Program &program = package->impl->program();
    // NULL: any size that tells lengths.
    int32_t index = -1;
    for (size_t i = 0; symbol && i < program.symbols.size(); ++i)
      if (program.symbols[i].name == symbol)
        index = int32_t(i);
    if (symbol && index < 0)
      return fail(Code::InvalidArgument, "there is no symbol '", symbol, "'");
    Batch batch;
    TRAINRT_TRY(readBatch(*arrays, batch));
    std::vector<int64_t> measured;
    TRAINRT_TRY(measureRowLengths(*package->impl, batch, index, measured));
    // Only now: a failure leaves the caller's memory as it was.
    if (measured.size() != rows)
      return fail(Code::BadData, "the arrays have ", measured.size(), " rows, not ", rows);
    std::copy(measured.begin(), measured.end(), lengths);
    return {};
  });
}

trainrt_status trainrt_package_count_real(const trainrt_package *package,
                                          const trainrt_batch *arrays, trainrt_token_role role,
                                          int64_t *real, int64_t *all, trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!package || !arrays || !real || !all)
      return nullArgument(!package ? "package" : !arrays ? "arrays" : !real ? "real" : "all");
    Batch batch;
    TRAINRT_TRY(readBatch(*arrays, batch));
    DensityRecord record;
    TRAINRT_TRY(countRealOf(*package->impl, batch, role == TRAINRT_LABEL, record));
    // Both at once, so that they belong to each other.
    *real = record.valid;
    *all = record.total;
    return {};
  });
}

/// `sampler` is written only where it succeeds; so are the results of all functions here.
trainrt_status trainrt_sampler_create(const trainrt_sampler_options *options,
                                      trainrt_sampler **sampler, trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!options || !sampler)
      return nullArgument(options ? "sampler" : "options");
    trainrt_sampler_options given = trainrt_sampler_options_default();
    TRAINRT_TRY(readStruct(options, "options", given));
    SamplerOptions chosen;
    chosen.rows = given.rows;
    // Copied: the sampler outlives what the caller has given.
    if (given.lengths && given.rows > 0)
      chosen.lengths.assign(given.lengths, given.lengths + given.rows);
    // Asked for here, and never again.
    if (given.complexity)
      for (int64_t row = 0; row < given.rows; ++row)
        chosen.complexities.push_back(given.complexity(given.complexity_user, row));
    chosen.batchSize = given.batch_size;
    chosen.tokensPerBatch = given.tokens_per_batch;
    chosen.lengthMultiple = given.length_multiple;
    chosen.group = given.group;
    chosen.shuffle = given.shuffle != 0;
    chosen.seed = uint64_t(given.seed);
    chosen.rank = given.rank;
    chosen.world = given.world;
    chosen.dropTail = given.drop_tail != 0;
    chosen.fullBatches = given.full_batches != 0;
    chosen.together = given.together;
    auto result = std::make_unique<trainrt_sampler>();
    TRAINRT_TRY(Sampler::create(std::move(chosen), result->impl));
    // The caller's from here on.
    *sampler = result.release();
    return {};
  });
}

void trainrt_sampler_free(trainrt_sampler *sampler) { delete sampler; }

trainrt_status trainrt_sampler_next(trainrt_sampler *sampler, const int64_t **rows, size_t *count,
                                    trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!sampler || !rows || !count)
      return nullArgument(!sampler ? "sampler" : !rows ? "rows" : "count");
    // Valid until the next call: the sampler holds it.
    const std::vector<int64_t> &batch = sampler->impl.next();
    *rows = batch.data();
    *count = batch.size();
    return {};
  });
}

int64_t trainrt_sampler_batches(trainrt_sampler *sampler, int64_t epoch) {
  // -1 where there is no memory for the plan of the epoch, too.
  int64_t count = -1;
  guard(nullptr, [&]() -> Status {
    if (sampler && epoch >= 0)
      count = sampler->impl.batches(epoch);
    return {};
  });
  return count;
}

trainrt_status trainrt_sampler_position(const trainrt_sampler *sampler, int64_t *epoch,
                                        int64_t *batch, trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!sampler || !epoch || !batch)
      return nullArgument(!sampler ? "sampler" : !epoch ? "epoch" : "batch");
    *epoch = sampler->impl.position().epoch;
    *batch = sampler->impl.position().index;
    return {};
  });
}

trainrt_status trainrt_sampler_seek(trainrt_sampler *sampler, int64_t epoch, int64_t batch,
                                    trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!sampler)
      return nullArgument("sampler");
    if (epoch < 0 || batch < 0)
      return fail(Code::InvalidArgument, "there is no batch ", batch, " of epoch ", epoch);
    sampler->impl.seek({epoch, batch});
    return {};
  });
}

trainrt_status trainrt_sampler_largest(trainrt_sampler *sampler, int64_t *rows, int64_t *length,
                                       trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!sampler || !rows || !length)
      return nullArgument(!sampler ? "sampler" : !rows ? "rows" : "length");
    sampler->impl.largest(*rows, *length);
    return {};
  });
}

uint64_t trainrt_sampler_hash(const trainrt_sampler *sampler) {
  return sampler ? sampler->impl.hash() : 0;
}

trainrt_status trainrt_session_free_memory(const trainrt_session *session, uint64_t *bytes,
                                           trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!session || !bytes)
      return nullArgument(session ? "bytes" : "session");
    // Negative where the system does not say.
    const int64_t free = session->impl->freeMemory();
    if (free < 0)
      return fail(Code::Unsupported, "the system does not tell how much memory is free");
    *bytes = uint64_t(free);
    return {};
  });
}

} // extern "C"
