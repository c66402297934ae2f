// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Signed packages: the right key opens them; another key, no signature and every change are
// refused.

#include "format/signature.h"
#include "tiny_package.h"

#include <gtest/gtest.h>

using namespace trainrt;
using namespace trainrt::test;

namespace {

// Those of RFC 8032, 7.1: tests 1 and 2.
constexpr const char *privateKey =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
    "-----END PRIVATE KEY-----\n";
constexpr const char *publicKey = "-----BEGIN PUBLIC KEY-----\n"
                                  "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
                                  "-----END PUBLIC KEY-----\n";
constexpr const char *otherKey = "-----BEGIN PUBLIC KEY-----\n"
                                 "MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n"
                                 "-----END PUBLIC KEY-----\n";
constexpr const char *keyOfAnotherKind =
    "-----BEGIN PUBLIC KEY-----\n"
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEVH0BD4rOtXUs2cO7CqGthWzQgYkd\n"
    "M071Bw0GLUXb/sO5BGYlHbwdiaEohEHVSNaQwOKC9ZNRIxMcRoVuQLE3qg==\n"
    "-----END PUBLIC KEY-----\n";

class SignatureTest : public ::testing::Test {
protected:
  SignatureTest() {
    write("key.pem", privateKey);
    write("public.pem", publicKey);
    write("other.pem", otherKey);
    write("ec.pem", keyOfAnotherKind);
    writeTinyPackage(folder / "plain.tpk");
  }
  void write(const std::string &name, const std::string &text) {
    writeBytes(folder / name, {text.begin(), text.end()});
  }
  /// The plain package again, signed, with further entries behind and before the signature.
  Status sign(const std::string &key, bool before = false, bool behind = false) {
    std::shared_ptr<const MappedFile> file;
    TRAINRT_TRY(MappedFile::open(folder / "plain.tpk", file));
    ZipReader plain;
    TRAINRT_TRY(ZipReader::open(file, plain));
    ZipWriter zip;
    TRAINRT_TRY(zip.create(folder / "signed.tpk"));
    for (const ZipEntry &entry : plain.entries())
      TRAINRT_TRY(zip.add(entry.name, plain.data(entry), entry.size));
    if (before)
      TRAINRT_TRY(zip.add("more", "more", 4));
    TRAINRT_TRY(signZip(zip, folder / key));
    if (behind)
      TRAINRT_TRY(zip.add("more", "more", 4));
    return zip.finish();
  }
  Status open(const std::string &name, const std::string &key) {
    std::shared_ptr<const Package> package;
    return Package::open(folder / name, package, key.empty() ? "" : folder / key);
  }
  void expectRefused(const Status &status, Code code, const std::string &message) {
    EXPECT_EQ(status.code(), code) << message;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  }

  TemporaryFolder folder;
};

} // namespace

TEST_F(SignatureTest, TheKeyOpensIt) {
  Status status = sign("key.pem");
  ASSERT_TRUE(status.ok()) << status.message();
  status = open("signed.tpk", "public.pem");
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(open("signed.tpk", "").ok());
  ASSERT_TRUE(sign("key.pem", /*before=*/true).ok());
  EXPECT_TRUE(open("signed.tpk", "public.pem").ok());
}

TEST_F(SignatureTest, OthersAreRefused) {
  ASSERT_TRUE(sign("key.pem").ok());
  expectRefused(open("signed.tpk", "other.pem"), Code::BadPackage,
                "signed.tpk': its signature is not by the key '");
  expectRefused(open("plain.tpk", "public.pem"), Code::BadPackage,
                "plain.tpk': it is not signed, and only a package that is signed by the key '");
  ASSERT_TRUE(sign("key.pem", false, /*behind=*/true).ok());
  expectRefused(open("signed.tpk", "public.pem"), Code::BadPackage,
                "entry 'signature.ed25519' is no signature");
}

TEST_F(SignatureTest, EveryChangeIsFound) {
  ASSERT_TRUE(sign("key.pem").ok());
  const std::vector<unsigned char> good = readBytes(folder / "signed.tpk");
  for (size_t i = 0; i < good.size(); i += i + 700 < good.size() && i > 700 ? 61 : 1) {
    std::vector<unsigned char> bytes = good;
    bytes[i] ^= 1;
    writeBytes(folder / "bad.tpk", bytes);
    EXPECT_EQ(open("bad.tpk", "public.pem").code(), Code::BadPackage) << i;
  }
  // With all checksums right, only the signature tells.
  TinyOptions options;
  options.editManifest = [](std::string &manifest) {
    manifest.replace(manifest.find("\"lr\": 0.1"), 9, "\"lr\": 0.2");
  };
  std::shared_ptr<const MappedFile> file;
  ZipReader zip;
  ASSERT_TRUE(MappedFile::open(folder / "signed.tpk", file).ok() &&
              ZipReader::open(file, zip).ok());
  const ZipEntry *signature = zip.find(signatureEntry);
  writeTinyPackage(folder / "other.tpk", options);
  std::shared_ptr<const MappedFile> otherFile;
  ZipReader other;
  ASSERT_TRUE(MappedFile::open(folder / "other.tpk", otherFile).ok() &&
              ZipReader::open(otherFile, other).ok());
  ZipWriter forged;
  ASSERT_TRUE(forged.create(folder / "forged.tpk").ok());
  for (const ZipEntry &entry : other.entries())
    ASSERT_TRUE(forged.add(entry.name, other.data(entry), entry.size).ok());
  ASSERT_TRUE(forged.add(signatureEntry, zip.data(*signature), signature->size).ok());
  ASSERT_TRUE(forged.finish().ok());
  EXPECT_TRUE(open("forged.tpk", "").ok());
  expectRefused(open("forged.tpk", "public.pem"), Code::BadPackage, "has been changed");
}

TEST_F(SignatureTest, BadKeysAreNamed) {
  ASSERT_TRUE(sign("key.pem").ok());
  write("none.pem", "no key");
  write("large.pem", std::string((1 << 16) + 1, '\n') + publicKey);
  expectRefused(open("signed.tpk", "large.pem"), Code::BadData,
                "large.pem' is no key in PEM form (too large); this makes one: openssl pkey");
  expectRefused(open("signed.tpk", "absent.pem"), Code::NotFound, "the key: ");
  expectRefused(open("signed.tpk", "none.pem"), Code::BadData,
                "none.pem' is no public key in PEM form; this makes one: openssl pkey");
  expectRefused(open("signed.tpk", "key.pem"), Code::BadData, "is no public key in PEM form");
  expectRefused(open("signed.tpk", "ec.pem"), Code::BadData, "is not of the kind Ed25519");
  expectRefused(
      sign("public.pem"), Code::BadData,
      "is no private key in PEM form without a passphrase; this makes one: openssl genpkey");
  expectRefused(sign("none.pem"), Code::BadData, "is no private key");
}
