// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When kernels are due.
#ifndef TRAINC_SCHEDULE_FORMKERNELS_ORDER_H
#define TRAINC_SCHEDULE_FORMKERNELS_ORDER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>

namespace trainc {

/// A kernel reads what another one makes at a position of the program.
struct GroupRead {
  int source, reader;
  unsigned made;
};

/// Makes kernels due no later than those that read them, as far as what is read is made by then in
/// program order. `due`: smaller is earlier.
inline void advanceSources(llvm::ArrayRef<GroupRead> reads, llvm::SmallVectorImpl<unsigned> &due) {
  llvm::SmallVector<llvm::SmallVector<const GroupRead *>, 0> above(due.size());
  llvm::SmallVector<int> work;
  for (const GroupRead &read : reads) {
    above[read.reader].push_back(&read);
    work.push_back(read.reader);
  }
  while (!work.empty()) {
    int reader = work.pop_back_val();
    for (const GroupRead *read : above[reader]) {
      unsigned needed = std::max(due[reader], read->made);
      if (needed < due[read->source]) {
        due[read->source] = needed;
        work.push_back(read->source);
      }
    }
  }
}

} // namespace trainc

#endif // TRAINC_SCHEDULE_FORMKERNELS_ORDER_H
