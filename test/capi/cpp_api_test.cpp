// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A C++17 host: the wrapper's handles and exceptions on DIR/m.tpk.
#include "trainrt/trainrt.hpp"

#include <cstdio>

namespace {
int failures = 0;
void check(bool condition, const char *what) {
  if (!condition) {
    std::printf("failed: %s\n", what);
    ++failures;
  }
}
} // namespace

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  try {
    trainrt::Package package(std::string(argv[1]) + "/m.tpk");
    check(package.info().can_train, "can_train");
    check(package.tensors(TRAINRT_PARAMETER).size() == 2, "parameters");
    check(package.symbols().size() == 1, "symbols");
    check(package.memory({{"batch", 8}}).arena > 0, "memory");

    trainrt::Session session(package);
    float x[4][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {1, 1, 1}}, y[4] = {1, 2, 3, 4};
    int64_t id[4] = {0, 1, 2, 3}, shape[2] = {4, 3};
    trainrt::Inputs inputs = {{"x", {x, TRAINRT_F32, 2, shape}},
                              {"id", {id, TRAINRT_I64, 1, shape}},
                              {"y", {y, TRAINRT_F32, 1, shape}}};
    double first = session.step({inputs}).loss;
    for (int i = 0; i < 20; ++i)
      session.step({inputs, inputs});
    check(session.eval(inputs).loss < first, "the loss falls");
    inputs.pop_back();
    session.eval(inputs, /*fillMissing=*/true);
    check(session.output("pred").shape[0] == 4, "prediction");
    bool thrown = false;
    try {
      session.step({inputs});
    } catch (const trainrt::Exception &exception) {
      thrown = exception.status() == TRAINRT_BAD_DATA;
    }
    check(thrown, "exception");
    session.save(std::string(argv[1]) + "/cpp", 1);
    trainrt::Session other(package);
    check(other.load(std::string(argv[1]) + "/cpp").step == 21, "resume");
  } catch (const std::exception &exception) {
    std::printf("unexpected: %s\n", exception.what());
    return 1;
  }
  return failures != 0;
}
