// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Folders of ONNX Runtime's artifacts that cannot be listed: to root no folder is unreadable, so
// that only a call can show it.

#include "trainc/Import/Artifacts.h"

#include <gtest/gtest.h>

using namespace trainc;

namespace {

TEST(ArtifactsTest, SaysThatAFolderCannotBeRead) {
  ArtifactFiles files;
  EXPECT_EQ(findArtifacts("/dev/null", files),
            "cannot read the folder '/dev/null': Not a directory");
}

} // namespace
