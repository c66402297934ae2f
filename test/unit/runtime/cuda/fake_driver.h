/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What tests ask of the fake CUDA driver beside the driver's own functions. It emulates one GPU
 * with the host's memory: work on a stream is not done when it is enqueued but when somebody waits,
 * so that whoever reuses memory too early gets wrong numbers. Kernels are functions of a shared
 * object in place of a cubin, void NAME(const uint64_t *parameters, unsigned blocks, unsigned
 * threads). */
#ifndef TRAINRT_TEST_FAKE_DRIVER_H
#define TRAINRT_TEST_FAKE_DRIVER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct FakeCuda {
  /* Compute capability, number of GPUs, and bytes of memory of the next one that is opened. */
  int major, minor, devices;
  size_t memory;
  int sharedBytes; /* that a thread block may have */
  /* Kernel of this name faults when it runs; NULL: none. */
  const char *faultingKernel;
  /* Counts since the last reset. */
  int launches; /* kernels that were enqueued or captured */
  int early;    /* of them those that may begin while what is in front of them ends */
  int bodies;   /* graphs that became the body of a conditional node */
  int captures; /* graphs that were instantiated */
  int graphRuns;
  int liveGraphs;    /* not destroyed; not reset */
  int copiesWithin;  /* copies within the GPU that were enqueued or captured */
  int waits;         /* for an event or a stream with work that was not done */
  int usedWhileBusy; /* memory freed that enqueued work still uses */
  size_t allocated;  /* bytes now; not reset */
  /* Of the graphs made from now on, the one with this number finds no memory; 0: none. */
  int failingGraph;
  size_t graphBytes; /* memory that each one takes */
  /* Of the GPU whose memory all of it is said to be. */
  int ordinalOfMemory;
  /* Whether processes, here threads, may open each other's memory; the opening with this number
   * fails, 0: none. */
  int peers, failingOpening;
  /* Copies between ranks that tell nobody that they are done. */
  int isSilent;
  size_t failingUpload; /* the next copy of so many bytes to the GPU fails; 0: none */
  size_t exported;      /* bytes of memory that others have been let open, not freed */
  int freedWhileOpen;   /* blocks that others had open when they were freed */
  /* Memory of others that was opened, or closed, while work of any stream was not done. */
  int openedWhileBusy, closedWhileBusy;
};

/* The one instance; found with dlsym. The environment variables FAKE_CUDA_MEMORY (bytes),
 * FAKE_CUDA_DEVICES (how many) and FAKE_CUDA_FAULT (a kernel's name) set its fields when the driver
 * is loaded. */
struct FakeCuda *fakeCuda(void);

#ifdef __cplusplus
}
#endif

#endif /* TRAINRT_TEST_FAKE_DRIVER_H */
