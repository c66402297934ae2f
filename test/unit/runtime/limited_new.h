// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that is used up when a test wants it to be.
#ifndef TRAINRT_TEST_LIMITED_NEW_H
#define TRAINRT_TEST_LIMITED_NEW_H

#include <cstddef>

namespace trainrt::test {

/// While it lives, `new` of more than `most` bytes fails in this thread.
class LimitedNew {
public:
  explicit LimitedNew(size_t most);
  ~LimitedNew();
};

} // namespace trainrt::test

#endif // TRAINRT_TEST_LIMITED_NEW_H
