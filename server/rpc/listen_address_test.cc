#include "server/rpc/listen_address.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

namespace belfry::rpc {
namespace {

using ::testing::HasSubstr;

TEST(ListenAddressTest, ReadsWhatItWrites) {
  for (const char* text : {"127.0.0.1:8001", "[::1]:0", "host.example:65535", "unix:/run/b.sock"}) {
    const auto address = ParseListenAddress(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(address->ToString(), text);
  }
  EXPECT_EQ(ParseListenAddress("unix:///run/b.sock")->path, "/run/b.sock");
}

TEST(ListenAddressTest, RefusesWhatIsNone) {
  for (const char* text : {"", "8001", "host", "host:", ":8001", "host:65536", "host:-1", "host:+1",
                           "::1:8001", "[::1:8001", "[host]:1", "host:80x", "unix:"}) {
    EXPECT_EQ(ParseListenAddress(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_FALSE(ParseListenAddress("unix:/" + std::string(200, 'x')).ok());
}

TEST(ListenAddressTest, KnowsWhatOnlyThisHostReaches) {
  for (const char* text : {"127.0.0.1:1", "127.9.9.9:1", "localhost:1", "[::1]:1", "unix:/x"}) {
    EXPECT_TRUE(ParseListenAddress(text)->is_local()) << text;
  }
  for (const char* text : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "localhost.example:1"}) {
    EXPECT_FALSE(ParseListenAddress(text)->is_local()) << text;
  }
}

TEST(ListenAddressTest, TellsThatAPortIsTaken) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  socklen_t size = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  ListenAddress taken{.host = "127.0.0.1", .port = ntohs(address.sin_port), .path = ""};
  const auto why = ExplainBindFailure(taken);
  EXPECT_THAT(std::string(why.message()), HasSubstr("Address already in use"));
  EXPECT_THAT(std::string(why.message()), HasSubstr(taken.ToString()));
  close(fd);
}

TEST(ListenAddressTest, TellsALiveSocketFromAStaleOne) {
  ListenAddress address;
  address.path = "/tmp/belfry_listen_test_" + std::to_string(getpid());
  EXPECT_TRUE(CheckUnixSocketFree(address).ok());
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un target{};
  target.sun_family = AF_UNIX;
  std::strcpy(target.sun_path, address.path.c_str());
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&target), sizeof target), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  EXPECT_EQ(CheckUnixSocketFree(address).code(), absl::StatusCode::kAlreadyExists);
  close(fd);
  EXPECT_TRUE(CheckUnixSocketFree(address).ok()) << "the file is still there, nobody listens";
  unlink(address.path.c_str());
}

}  // namespace
}  // namespace belfry::rpc
