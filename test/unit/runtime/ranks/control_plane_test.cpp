// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that come to a coordinator: who is missing, who is lost, what they leave each other.

#include "comm/control_plane.h"

#include <atomic>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

using namespace trainrt;
using namespace std::chrono_literals;

namespace {

/// A socket that listens, and its port.
Socket listening(int &port) {
  Socket socket;
  EXPECT_TRUE(listenAt(0, socket).ok());
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr *>(&address), &size), 0);
  port = ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6 &>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in &>(address).sin_port);
  return socket;
}

/// The ends of all ranks, by rank.
std::vector<std::unique_ptr<ControlPlane>> joinAll(int world, const RankLimits &limits) {
  int port = 0;
  Socket socket = listening(port);
  std::vector<std::unique_ptr<ControlPlane>> planes{size_t(world)};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank] {
      const Status status =
          ControlPlane::join(rank, world, {"127.0.0.1", port}, rank ? Socket() : std::move(socket),
                             limits, planes[size_t(rank)]);
      EXPECT_TRUE(status.ok()) << status.message();
    });
  for (std::thread &thread : threads)
    thread.join();
  return planes;
}

/// Those above 0 first: rank 0 waits for them.
void leave(std::vector<std::unique_ptr<ControlPlane>> &planes) {
  while (!planes.empty())
    planes.pop_back();
}

} // namespace

TEST(ControlPlane, CarriesValues) {
  std::vector<std::unique_ptr<ControlPlane>> planes = joinAll(3, {});
  EXPECT_EQ(planes[1]->address(), "127.0.0.1");
  std::string value;
  std::thread waiting([&] { EXPECT_TRUE(planes[2]->get("key", value).ok()); });
  const std::string bytes("a\0b", 3);
  EXPECT_TRUE(planes[1]->set("key", bytes).ok());
  waiting.join();
  EXPECT_EQ(value, bytes);
  EXPECT_TRUE(planes[0]->get("key", value).ok());
  leave(planes);
}

/// Rank 0 calls itself by a name that leads to the machine itself, rank 1 by one that it has for
/// others, too: by that it reaches both.
TEST(ControlPlane, AddressesAreThoseThatOthersReach) {
  ifaddrs *all = nullptr;
  ASSERT_EQ(::getifaddrs(&all), 0);
  std::string address;
  for (ifaddrs *at = all; at; at = at->ifa_next) {
    char text[NI_MAXHOST] = "";
    if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET && (at->ifa_flags & IFF_UP) &&
        ::getnameinfo(at->ifa_addr, sizeof(sockaddr_in), text, sizeof text, nullptr, 0,
                      NI_NUMERICHOST) == 0 &&
        !isLoopback(text))
      address = text;
  }
  ::freeifaddrs(all);
  if (address.empty())
    GTEST_SKIP() << "this machine has no address for others";
  int port = 0;
  Socket socket = listening(port);
  std::unique_ptr<ControlPlane> planes[2];
  std::thread other([&] {
    EXPECT_TRUE(ControlPlane::join(1, 2, {address, port}, Socket(), {}, planes[1]).ok());
  });
  EXPECT_TRUE(ControlPlane::join(0, 2, {"127.0.0.1", port}, std::move(socket), {}, planes[0]).ok());
  other.join();
  EXPECT_EQ(planes[0]->address(), address);
  EXPECT_EQ(planes[1]->address(), address);
  planes[1].reset();
}

TEST(ControlPlane, ValuesThatNobodySets) {
  RankLimits limits;
  limits.exchange = 1000ms;
  std::vector<std::unique_ptr<ControlPlane>> planes = joinAll(2, limits);
  std::string value;
  EXPECT_EQ(planes[1]->get("nothing", value).message(), "no rank has told 'nothing' within 1 s");
  leave(planes);
}

TEST(ControlPlane, OneThatFailsIsNamedToAll) {
  std::vector<std::unique_ptr<ControlPlane>> planes = joinAll(3, {});
  std::atomic<int> told{0};
  for (auto &plane : planes)
    plane->onFailure([&] { ++told; });
  planes[2]->abort("the disk is full");
  for (auto &plane : planes) {
    const Status status = plane->explain(Status());
    EXPECT_EQ(status.code(), Code::RankLost);
    EXPECT_EQ(status.message().find("rank 2 on "), 0u) << status.message();
    EXPECT_NE(status.message().find(": the disk is full"), std::string::npos);
  }
  for (int i = 0; i < 100 && told < 3; ++i)
    std::this_thread::sleep_for(10ms);
  EXPECT_EQ(told, 3);
  bool late = false;
  planes[0]->onFailure([&] { late = true; });
  EXPECT_TRUE(late);
  leave(planes);
}

TEST(ControlPlane, LeavingIsNoFailure) {
  std::vector<std::unique_ptr<ControlPlane>> planes = joinAll(2, {});
  planes[1].reset();
  std::this_thread::sleep_for(300ms);
  EXPECT_TRUE(planes[0]->failure().ok());
  EXPECT_EQ(planes[0]->explain(Status(Code::RankLost, "otherwise")).message(), "otherwise");
  leave(planes);
}

TEST(ControlPlane, WhatIsNoRankIsIgnored) {
  int port = 0;
  RankLimits limits;
  limits.join = 5000ms;
  Coordinator coordinator(listening(port), 1, limits);
  for (const std::string &bytes : {std::string("GET / HTTP/1.0\r\n\r\n"), std::string(64, '\0')}) {
    Socket stranger;
    ASSERT_TRUE(connectTo({"127.0.0.1", port}, 1000ms, stranger).ok());
    ASSERT_EQ(::send(stranger.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              ssize_t(bytes.size()));
  }
  std::unique_ptr<ControlPlane> plane;
  // A second coordinator cannot have the port.
  EXPECT_NE(ControlPlane::join(0, 1, {"127.0.0.1", port}, Socket(), limits, plane)
                .message()
                .find("cannot be used by the coordinator (bind: "),
            std::string::npos);
}

TEST(ControlPlane, Endpoints) {
  Endpoint endpoint;
  EXPECT_TRUE(Endpoint::parse("[::1]:80", endpoint));
  EXPECT_EQ(endpoint.host, "::1");
  EXPECT_TRUE(Endpoint::parse("node-3.cluster:29500", endpoint));
  EXPECT_EQ(endpoint.port, 29500);
  for (const char *wrong :
       {"", "host", "host:", ":80", "host:0", "host:65536", "host:x", "host:-1"})
    EXPECT_FALSE(Endpoint::parse(wrong, endpoint)) << wrong;
}
