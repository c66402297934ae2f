// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Signatures of packages: Ed25519 by OpenSSL's libcrypto, which is loaded when one is made or
// checked, so that nothing else needs it. Keys are PEM files as `openssl genpkey -algorithm
// ed25519` and `openssl pkey -pubout` write them.
#ifndef TRAINRT_FORMAT_SIGNATURE_H
#define TRAINRT_FORMAT_SIGNATURE_H

#include "format/zip.h"

#include <string>

namespace trainrt {

/// The last entry of a signed package: 64 bytes, the signature of all bytes before its header. The
/// directory behind it says nothing that these do not (ZipReader::checkCanonical).
inline constexpr const char *signatureEntry = "signature.ed25519";

/// Adds the entry to a package that is whole but for `finish`. NotFound, IoError or BadData names
/// the key; Unsupported: there is no libcrypto.
Status signZip(ZipWriter &zip, const std::string &privateKey);

/// Whether packages can be signed with the key: with the errors of signZip.
Status checkPrivateKey(const std::string &privateKey);

/// Whether the package is signed by the owner of the key. BadPackage: it is not signed, or not by
/// them, or has been changed. Errors of the key as for signZip.
Status verifyZip(const ZipReader &zip, const std::string &publicKey);

} // namespace trainrt

#endif // TRAINRT_FORMAT_SIGNATURE_H
