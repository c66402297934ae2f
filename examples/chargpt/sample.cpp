// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes text with a trained character GPT: a host application that embeds libtrainrt.
//
//   sample PACKAGE CHECKPOINTS VOCABULARY [LENGTH [TEMPERATURE [SEED [PROMPT]]]]
//
// Opens the package for inference, loads the newest checkpoint, and again and again asks for the
// logits of the next character. Build it with
//   c++ -std=c++20 sample.cpp -I runtime/include -L build/lib -ltrainrt -Wl,-rpath,build/lib
#include <trainrt/trainrt.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr int64_t kContext = 128; // rows of the model's position table

/// Ends the program with the message of `error` when `status` is not OK. By its address, as the
/// call that sets it may be evaluated after it.
void check(trainrt_status status, trainrt_error *const &error) {
  if (status == TRAINRT_OK)
    return;
  std::cerr << "sample: " << trainrt_error_message(error) << "\n";
  trainrt_error_free(error);
  std::exit(1);
}

/// The characters of vocabulary.json, which is one JSON string; empty when it cannot be read.
std::string readVocabulary(const char *path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t begin = text.find('"');
  std::string characters;
  for (size_t i = begin + 1; begin != std::string::npos && i < text.size() && text[i] != '"'; ++i) {
    if (text[i] == '\\' && ++i < text.size())
      characters += text[i] == 'n' ? '\n' : text[i];
    else
      characters += text[i];
  }
  return characters;
}

/// Draws an index with probability proportional to exp(logits / temperature).
size_t draw(const float *logits, size_t count, double temperature, std::mt19937_64 &random) {
  const double peak = *std::max_element(logits, logits + count);
  std::vector<double> weights(count);
  for (size_t i = 0; i < count; ++i)
    weights[i] = std::exp((logits[i] - peak) / temperature);
  return std::discrete_distribution<size_t>(weights.begin(), weights.end())(random);
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 4) {
    std::cerr << "usage: sample PACKAGE CHECKPOINTS VOCABULARY [LENGTH [TEMPERATURE [SEED "
                 "[PROMPT]]]]\n";
    return 2;
  }
  const int64_t length = argc > 4 ? std::atoll(argv[4]) : 600;
  const double temperature = argc > 5 ? std::atof(argv[5]) : 0.7;
  std::mt19937_64 random(argc > 6 ? std::strtoull(argv[6], nullptr, 10) : 1);
  const std::string prompt = argc > 7 ? argv[7] : "\n\nLOVE, n.  ";
  const std::string vocabulary = readVocabulary(argv[3]);
  if (vocabulary.empty()) {
    std::cerr << "sample: no vocabulary in " << argv[3] << "\n";
    return 1;
  }

  trainrt_error *error = nullptr;
  trainrt_package *package = nullptr;
  check(trainrt_package_open(argv[1], &package, &error), error);
  trainrt_session_options options = trainrt_session_options_default();
  options.inference = 1;
  options.weights = TRAINRT_WEIGHTS_NONE; // the checkpoint has them all
  trainrt_session *session = nullptr;
  check(trainrt_session_create(package, &options, &session, &error), error);
  check(trainrt_checkpoint_load(session, argv[2], nullptr, &error), error);

  std::vector<int64_t> ids;
  for (char c : prompt)
    ids.push_back(int64_t(std::max<size_t>(vocabulary.find(c), 0)));
  for (int64_t &id : ids)
    id = std::min<int64_t>(id, int64_t(vocabulary.size()) - 1);
  std::cout << prompt << std::flush;
  for (int64_t n = 0; n < length; ++n) {
    const int64_t used = std::min<int64_t>(int64_t(ids.size()), kContext);
    const int64_t shape[2] = {1, used};
    const trainrt_named_tensor input = {
        "input_ids", {ids.data() + ids.size() - size_t(used), TRAINRT_I64, 2, shape}};
    const trainrt_batch batch = {&input, 1};
    trainrt_eval_options eval = trainrt_eval_options_default();
    eval.flags = TRAINRT_EVAL_FILL_MISSING; // no labels: only the logits matter
    check(trainrt_eval(session, &batch, &eval, nullptr, &error), error);
    trainrt_tensor logits;
    check(trainrt_session_output(session, "logits", &logits, &error), error);
    const float *last =
        static_cast<const float *>(logits.data) + size_t(used - 1) * vocabulary.size();
    const size_t next = draw(last, vocabulary.size(), temperature, random);
    ids.push_back(int64_t(next));
    std::cout << vocabulary[next] << std::flush;
  }
  std::cout << "\n";
  trainrt_session_free(session);
  trainrt_package_free(package);
  return 0;
}
