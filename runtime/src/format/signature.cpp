// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions of libcrypto's ABI 3 that are needed, by name; its types are opaque here.

#include "format/signature.h"
#include "format/file.h"

#include <dlfcn.h>
#include <new>
#include <type_traits>

namespace trainrt {

namespace {

/// Ed25519's, always.
constexpr size_t signatureSize = 64;
constexpr int pkeyEd25519 = 1087; // EVP_PKEY_ED25519

class Crypto {
public:
  static Status load(Crypto &crypto) {
    // Stays loaded, as it may have been loaded by others: it has state of its own.
    void *library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
    if (!library)
      return fail(Code::Unsupported,
                  "signatures need OpenSSL's libcrypto.so.3, which is not there; install libssl3");
    // All or none: a half-loaded table would crash later.
    bool whole = true;
    auto find = [&](auto &function, const char *name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      whole = whole && function;
    };
    find(crypto.newBuffer, "BIO_new_mem_buf");
    find(crypto.freeBuffer, "BIO_free");
    find(crypto.readPrivate, "PEM_read_bio_PrivateKey");
    find(crypto.readPublic, "PEM_read_bio_PUBKEY");
    find(crypto.freeKey, "EVP_PKEY_free");
    find(crypto.kindOf, "EVP_PKEY_get_id");
    find(crypto.newContext, "EVP_MD_CTX_new");
    find(crypto.freeContext, "EVP_MD_CTX_free");
    find(crypto.beginSign, "EVP_DigestSignInit");
    find(crypto.sign, "EVP_DigestSign");
    find(crypto.beginVerify, "EVP_DigestVerifyInit");
    find(crypto.verify, "EVP_DigestVerify");
    find(crypto.clearErrors, "ERR_clear_error");
    return whole ? Status()
                 : fail(Code::Unsupported, "libcrypto.so.3 lacks functions for signatures");
  }

  // int of the callback: no passphrase, and nobody is asked for one.
  using Passphrase = int (*)(char *, int, int, void *);
  void *(*newBuffer)(const void *, int);
  int (*freeBuffer)(void *);
  void *(*readPrivate)(void *, void **, Passphrase, void *);
  void *(*readPublic)(void *, void **, Passphrase, void *);
  void (*freeKey)(void *);
  int (*kindOf)(const void *);
  void *(*newContext)();
  void (*freeContext)(void *);
  int (*beginSign)(void *, void **, const void *, void *, void *);
  int (*sign)(void *, unsigned char *, size_t *, const unsigned char *, size_t);
  int (*beginVerify)(void *, void **, const void *, void *, void *);
  int (*verify)(void *, const unsigned char *, size_t, const unsigned char *, size_t);
  void (*clearErrors)();
};

/// A key and what works with it.
class Key {
public:
  // Every path out of `read` frees what it has made.
  ~Key() {
    if (context)
      crypto.freeContext(context);
    if (key)
      crypto.freeKey(key);
  }

  Status read(const std::string &path, bool isPrivate) {
    TRAINRT_TRY(Crypto::load(crypto));
    std::shared_ptr<const MappedFile> file;
    TRAINRT_TRY(MappedFile::open(path, file).within("the key: "));
    const char *command = isPrivate ? "openssl genpkey -algorithm ed25519 -out key.pem"
                                    : "openssl pkey -in key.pem -pubout -out public.pem";
    auto bad = [&](const char *what) {
      return fail(Code::BadData, "the key '", path, "' ", what, "; this makes one: ", command);
    };
    // A key has about 120 bytes; the function takes its length as an int.
    if (file->size() > 1 << 16)
      return bad("is no key in PEM form (too large)");
    void *buffer = crypto.newBuffer(file->data(), int(file->size()));
    auto noPassphrase = [](char *, int, int, void *) { return -1; };
    if (buffer)
      key = (isPrivate ? crypto.readPrivate : crypto.readPublic)(buffer, nullptr, noPassphrase,
                                                                 nullptr);
    // BIO_free takes null, too.
    crypto.freeBuffer(buffer);
    crypto.clearErrors();
    if (!key)
      return bad(isPrivate ? "is no private key in PEM form without a passphrase"
                           : "is no public key in PEM form");
    // Other kinds would need a choice of the hash; there is no reason for one here.
    if (crypto.kindOf(key) != pkeyEd25519)
      return bad("is not of the kind Ed25519");
    context = crypto.newContext();
    if (!context)
      throw std::bad_alloc();
    return {};
  }

  Crypto crypto = {};
  void *key = nullptr, *context = nullptr;
};

} // namespace

Status checkPrivateKey(const std::string &privateKey) {
  return Key().read(privateKey, /*isPrivate=*/true);
}

Status signZip(ZipWriter &zip, const std::string &privateKey) {
  // Signs all bytes before the signature's own entry: what the file has so far.
  Key key;
  TRAINRT_TRY(key.read(privateKey, /*isPrivate=*/true));
  std::shared_ptr<const MappedFile> written;
  TRAINRT_TRY(MappedFile::open(zip.temporaryPath(), written));
  unsigned char signature[signatureSize];
  size_t size = sizeof signature;
  // No hash is given: Ed25519 hashes by itself, and takes the whole message at once.
  if (key.crypto.beginSign(key.context, nullptr, nullptr, nullptr, key.key) != 1 ||
      key.crypto.sign(key.context, signature, &size, written->data(), written->size()) != 1 ||
      size != sizeof signature)
    return fail(Code::Internal, "libcrypto cannot sign with the key '", privateKey, "'");
  return zip.add(signatureEntry, signature, sizeof signature);
}

Status verifyZip(const ZipReader &zip, const std::string &publicKey) {
  Key key;
  TRAINRT_TRY(key.read(publicKey, /*isPrivate=*/false));
  const ZipEntry *entry = zip.find(signatureEntry);
  if (!entry)
    return fail(Code::BadPackage,
                "it is not signed, and only a package that is signed by the key '", publicKey,
                "' is wanted");
  // The reader looks at the directory, a signature at bytes: only in the form in which the writer
  // lays a file out does each byte belong to something that is checked.
  TRAINRT_TRY(zip.checkCanonical().as(Code::BadPackage));
  // Behind it nothing could be signed.
  if (entry != &zip.entries().back() || entry->method != 0 || entry->size != signatureSize)
    return fail(Code::BadPackage, "entry '", signatureEntry, "' is no signature");
  // Up to its own header, as signZip has signed.
  const bool holds = key.crypto.beginVerify(key.context, nullptr, nullptr, nullptr, key.key) == 1 &&
                     key.crypto.verify(key.context, zip.data(*entry), signatureSize,
                                       zip.mapping()->data(), entry->headerOffset) == 1;
  key.crypto.clearErrors();
  if (!holds)
    return fail(Code::BadPackage, "its signature is not by the key '", publicKey,
                "', or the package has been changed since it was signed");
  return {};
}

} // namespace trainrt
