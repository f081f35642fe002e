#include "device/cpu/host.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belfry::cpu {
namespace {

using ::testing::ElementsAre;

TEST(HostTest, NamesTheInstructionSetsOfX86) {
  EXPECT_THAT(IsasOf("x86_64",
                     "processor : 0\nflags\t\t: fpu avx2 fma f16c avx512f avx512dq avx512vl "
                     "avx512bw\n\nprocessor : 1\nflags : fpu\n"),
              ElementsAre("avx512", "avx2", "default"));
  EXPECT_THAT(IsasOf("x86_64", "flags : avx2 fma f16c avx512f\n"), ElementsAre("avx2", "default"));
  EXPECT_THAT(IsasOf("x86_64", "flags : avx512f avx512dq avx512vl avx512bw\n"),
              ElementsAre("default"));
  EXPECT_THAT(IsasOf("x86_64", ""), ElementsAre("default"));
}

TEST(HostTest, NamesTheInstructionSetsOfOthers) {
  EXPECT_THAT(IsasOf("s390x", "features\t: esan3 zarch vx vxd vxe gs\n"),
              ElementsAre("zvector", "default"));
  EXPECT_THAT(IsasOf("s390x", "features\t: esan3 zarch vx\n"), ElementsAre("default"));
  EXPECT_THAT(IsasOf("ppc64le", ""), ElementsAre("vsx", "default"));
  EXPECT_THAT(IsasOf("aarch64", "Features : fp asimd\n"), ElementsAre("default"));
}

TEST(HostTest, TellsMemory) {
  EXPECT_GT(ResidentBytes(), 0u);
  EXPECT_GT(HostMemoryBytes(), ResidentBytes());
  EXPECT_FALSE(HostArch().empty());
}

}  // namespace
}  // namespace belfry::cpu
