// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A message on the wire: magic, kind, number of texts, and of each its size and its bytes; numbers
// are of 32 bits and little endian, as the machines are that packages are for.

#include "comm/message_socket.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace trainrt {

namespace {

constexpr uint32_t magic = 0x31524e54; // "TNR1"
/// What ranks tell each other here is short; longer is something else's.
constexpr uint32_t mostTexts = 16, mostBytes = 1 << 24;

void addNumber(std::string &to, uint32_t number) {
  to.append(reinterpret_cast<const char *>(&number), sizeof number);
}

/// How many bytes of `from` are a message; 0: it is not all there; negative: it is none.
/// Sizes are compared with the limits before anything of that size is taken: a peer may be anybody.
/// `message` is whole only where the result is positive.
int64_t parse(const std::string &from, size_t at, Message &message) {
  size_t end = at;
  auto number = [&](uint32_t &value) {
    if (from.size() - end < sizeof value)
      return false;
    std::memcpy(&value, from.data() + end, sizeof value);
    end += sizeof value;
    return true;
  };
  uint32_t found = 0, count = 0, size = 0;
  if (!number(found))
    return 0;
  if (found != magic)
    return -1;
  if (!number(message.kind) || !number(count))
    return 0;
  if (count > mostTexts)
    return -1;
  message.texts.clear();
  for (uint32_t i = 0; i < count; ++i) {
    if (!number(size))
      return 0;
    if (size > mostBytes)
      return -1;
    if (from.size() - end < size)
      return 0;
    message.texts.push_back(from.substr(end, size));
    end += size;
  }
  return int64_t(end - at);
}

} // namespace

void Socket::close() {
  if (fd >= 0)
    ::close(fd);
  fd = -1;
}

MessageSocket::MessageSocket(Socket opened) : socket(std::move(opened)) {
  const int one = 1;
  // Words are short and waited for: they do not wait for more bytes.
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  // A message is short; an end that takes none for so long has other troubles.
  const timeval limit{5, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/// One thread at a time. Behind false the other end may have a part of it: nothing more can be said
/// on this connection.
bool MessageSocket::send(const Message &message) {
  std::string bytes;
  addNumber(bytes, magic);
  addNumber(bytes, message.kind);
  addNumber(bytes, uint32_t(message.texts.size()));
  for (const std::string &text : message.texts) {
    addNumber(bytes, uint32_t(text.size()));
    bytes += text;
  }
  // An end that has gone is an error here, not a signal to the process.
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t more =
        ::send(socket.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (more < 0 && errno == EINTR)
      continue;
    if (more <= 0)
      return false;
    sent += size_t(more);
  }
  return true;
}

/// Messages before the end of a connection are handed out all the same. A part of one stays in
/// `pending` until the rest comes.
bool MessageSocket::receive(std::deque<Message> &messages) {
  bool isOpen = true;
  for (char buffer[65536];;) {
    const ssize_t more = ::recv(socket.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (more < 0 && errno == EINTR)
      continue;
    if (more > 0) {
      pending.append(buffer, size_t(more));
      continue;
    }
    isOpen = more < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    break;
  }
  size_t at = 0;
  for (;;) {
    Message message;
    const int64_t size = parse(pending, at, message);
    if (size < 0)
      return false;
    if (size == 0)
      break;
    messages.push_back(std::move(message));
    at += size_t(size);
  }
  pending.erase(0, at);
  return isOpen;
}

/// The last colon counts, since addresses have colons, too. Where the result is false the endpoint
/// may be half written.
bool Endpoint::parse(const std::string &text, Endpoint &endpoint) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0)
    return false;
  const std::string port = text.substr(colon + 1);
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos)
    return false;
  endpoint.host = text.substr(0, colon);
  if (endpoint.host.size() > 2 && endpoint.host.front() == '[' && endpoint.host.back() == ']')
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  endpoint.port = std::stoi(port);
  return endpoint.port > 0 && endpoint.port < 65536;
}

/// `socket` is set where it listens. A port in use is an error at once; where there is no IPv6 the
/// older family is tried.
Status listenAt(int port, Socket &socket) {
  auto failed = [&](const char *what) {
    return fail(Code::RankLost, "port ", port, " cannot be used by the coordinator (", what, ": ",
                std::strerror(errno), "); name another one");
  };
  // Of both families where there is IPv6.
  for (int family : {AF_INET6, AF_INET}) {
    Socket opened(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!opened.isOpen())
      continue;
    const int one = 1, zero = 0;
    ::setsockopt(opened.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    sockaddr_in6 six{};
    sockaddr_in four{};
    six.sin6_family = AF_INET6;
    six.sin6_port = four.sin_port = htons(uint16_t(port));
    four.sin_family = AF_INET;
    if (family == AF_INET6)
      // One socket for both.
      ::setsockopt(opened.get(), IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    const auto *address = family == AF_INET6 ? reinterpret_cast<const sockaddr *>(&six)
                                             : reinterpret_cast<const sockaddr *>(&four);
    if (::bind(opened.get(), address, family == AF_INET6 ? sizeof six : sizeof four) != 0) {
      if (family == AF_INET6 && errno != EADDRINUSE)
        continue;
      return failed("bind");
    }
    if (::listen(opened.get(), SOMAXCONN) != 0)
      return failed("listen");
    socket = std::move(opened);
    return {};
  }
  return failed("socket");
}

/// The coordinator may come later than other ranks: names are looked up and all of their addresses
/// tried again and again, once at least. The last reason is told. The socket that is returned
/// blocks.
Status connectTo(const Endpoint &endpoint, std::chrono::milliseconds limit, Socket &socket) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + limit;
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  std::string last = "no answer";
  do {
    const int error =
        ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
    if (error)
      last = ::gai_strerror(error);
    for (addrinfo *at = error ? nullptr : found; at; at = at->ai_next) {
      Socket opened(
          ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol));
      if (!opened.isOpen())
        continue;
      int result = ::connect(opened.get(), at->ai_addr, at->ai_addrlen);
      if (result != 0 && errno == EINPROGRESS) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
        pollfd waiting{opened.get(), POLLOUT, 0};
        // What became of it: 0 is a connection. It stays so where nothing came in time.
        int problem = ETIMEDOUT;
        socklen_t size = sizeof problem;
        if (::poll(&waiting, 1, int(std::clamp<int64_t>(left, 0, INT_MAX))) == 1)
          ::getsockopt(opened.get(), SOL_SOCKET, SO_ERROR, &problem, &size);
        result = problem ? -1 : 0;
        errno = problem;
      }
      if (result != 0) {
        last = std::strerror(errno);
        continue;
      }
      const int flags = ::fcntl(opened.get(), F_GETFL);
      ::fcntl(opened.get(), F_SETFL, flags & ~O_NONBLOCK);
      socket = std::move(opened);
      ::freeaddrinfo(found);
      return {};
    }
    if (!error)
      ::freeaddrinfo(found);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (Clock::now() < deadline);
  return fail(Code::RankLost, "the coordinator, rank 0 at ", endpoint.host, ":", endpoint.port,
              ", does not answer: ", last, " (tried for ", limit.count() / 1000, " s)");
}

/// In digits. An address of IPv4 in the form of IPv6 gets its own form back. Where it cannot be
/// asked for, the ranks are taken to be on one machine.
std::string localAddress(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char text[NI_MAXHOST] = "";
  if (::getsockname(fd, reinterpret_cast<sockaddr *>(&address), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr *>(&address), size, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) != 0)
    return "127.0.0.1";
  const std::string name = text;
  return name.starts_with("::ffff:") ? name.substr(7) : name;
}

bool isLoopback(const std::string &address) {
  return address.starts_with("127.") || address == "::1";
}

std::string hostName() {
  char text[HOST_NAME_MAX + 1] = "";
  ::gethostname(text, sizeof text - 1);
  return text;
}

} // namespace trainrt
