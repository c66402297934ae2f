// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TCP connections that carry messages: a kind, a number, and bytes.
#ifndef TRAINRT_COMM_MESSAGE_SOCKET_H
#define TRAINRT_COMM_MESSAGE_SOCKET_H

#include "format/status.h"

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace trainrt {

struct Message {
  uint32_t kind = 0;
  std::vector<std::string> texts;
};

/// Owns a socket.
class Socket {
public:
  Socket() = default;
  explicit Socket(int fd) : fd(fd) {}
  ~Socket() { close(); }
  Socket(Socket &&other) noexcept : fd(other.release()) {}
  Socket &operator=(Socket &&other) noexcept {
    if (this != &other) {
      close();
      fd = other.release();
    }
    return *this;
  }
  int get() const { return fd; }
  bool isOpen() const { return fd >= 0; }
  int release() {
    const int result = fd;
    fd = -1;
    return result;
  }
  void close();

private:
  int fd = -1;
};

/// One end of a connection. Sending and receiving may be done by two threads at once.
class MessageSocket {
public:
  explicit MessageSocket(Socket socket);

  int fd() const { return socket.get(); }
  /// False where the other end does not take it.
  bool send(const Message &message);
  /// Takes what has come by now, without waiting; false where the connection has ended or brings
  /// what is no message.
  bool receive(std::deque<Message> &messages);

private:
  Socket socket;
  std::string pending;
};

/// "HOST:PORT", "[::1]:PORT".
struct Endpoint {
  std::string host;
  int port = 0;
  static bool parse(const std::string &text, Endpoint &endpoint);
};

/// A socket that listens at a port of this machine, on all of its addresses.
Status listenAt(int port, Socket &socket);
/// Tries until it succeeds or `limit` has passed.
Status connectTo(const Endpoint &endpoint, std::chrono::milliseconds limit, Socket &socket);
/// The address that a connection leaves this machine by.
std::string localAddress(int fd);
/// Whether an address leads to the machine itself.
bool isLoopback(const std::string &address);
/// This machine's name, for people.
std::string hostName();

} // namespace trainrt

#endif // TRAINRT_COMM_MESSAGE_SOCKET_H
