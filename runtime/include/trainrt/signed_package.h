/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/*
 * Packages of somebody who is trusted. Part of trainrt.h, which includes it and whose rules hold
 * here, too.
 */
#ifndef TRAINRT_SIGNED_PACKAGE_H
#define TRAINRT_SIGNED_PACKAGE_H

#include "trainrt/trainrt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Since 1.2: `trainrt_package_open` for a package that must have been signed (trainc --sign) with
 * the private key of `key`, a file with an Ed25519 public key in PEM form. The signature is checked
 * before anything in the package is read. BAD_PACKAGE: it is not signed, or not with that key, or
 * has been changed; NOT_FOUND / IO_ERROR / BAD_DATA: of the key's file; UNSUPPORTED: OpenSSL's
 * libcrypto.so.3, which is loaded for this alone, is not there. */
TRAINRT_API trainrt_status trainrt_package_open_signed(const char *path, const char *key,
                                                       trainrt_package **package,
                                                       trainrt_error **error);

#ifdef __cplusplus
}
#endif
#endif /* TRAINRT_SIGNED_PACKAGE_H */
