/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef TRAINRT_TEST_DLPACK_STRUCTS_H
#define TRAINRT_TEST_DLPACK_STRUCTS_H

#include <stdint.h>

/* DLPack's structs, as a host's own header declares them. */
typedef struct {
  void *data;
  int32_t device_type, device_id, ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} dl_tensor;
struct DLManagedTensor {
  dl_tensor tensor;
  void *context;
  void (*deleter)(struct DLManagedTensor *);
};

#endif
