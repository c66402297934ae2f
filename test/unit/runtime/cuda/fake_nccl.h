/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What tests ask of the fake NCCL, whose ranks are threads of one process and exchange on the
 * streams of the fake driver. */
#ifndef TRAINRT_TEST_FAKE_NCCL_H
#define TRAINRT_TEST_FAKE_NCCL_H

#ifdef __cplusplus
extern "C" {
#endif

struct FakeNccl {
  int version; /* as ncclGetVersion tells it */
  int refuses; /* communicators cannot be made */
  int hangs;   /* they are never done */
  /* The group with this number, from 1 on, of each communicator: behind it an error is told; its
   * work is never done. 0: none. */
  int failingGroup, stuckGroup;
  int mostCTAs; /* that the last communicator may use; INT_MIN: as the library likes it */
  /* Counts since the last reset. */
  int groups, pieces, sums, finalized, destroyed, aborted;
};

/* The one instance; found with dlsym. */
struct FakeNccl *fakeNccl(void);

#ifdef __cplusplus
}
#endif

#endif /* TRAINRT_TEST_FAKE_NCCL_H */
