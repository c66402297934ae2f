// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where the ranks of a run meet, a thread of rank 0: it brings them together, keeps what they tell
// each other before they are connected, and says when one is lost.
#ifndef TRAINRT_COMM_COORDINATOR_H
#define TRAINRT_COMM_COORDINATOR_H

#include "comm/message_socket.h"

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <thread>

namespace trainrt {

/// What is said between a rank and the coordinator.
enum class Word : uint32_t {
  Join,   ///< rank, world, where it runs
  Ready,  ///< all are there; for one on rank 0's machine, by which address others reach that
  Refuse, ///< why
  Set,    ///< key, value
  Get,    ///< key
  Value,  ///< key, value
  Gather, ///< bytes of this rank; all have said it: those of all, as `packTexts` packs them
  Beat,   ///< still there
  Leave,  ///< will be gone, in order
  Abort,  ///< why all have to end
  Lost    ///< the same, of the rank that it was
};

/// Texts with their sizes, as one.
std::string packTexts(const std::vector<std::string> &texts);
/// False where `packed` is none.
bool unpackTexts(const std::string &packed, std::vector<std::string> &texts);

struct RankLimits {
  /// Until all ranks are there.
  std::chrono::milliseconds join{60'000};
  /// Without a word of a rank.
  std::chrono::milliseconds silence{5'000};
  /// Of an exchange.
  std::chrono::milliseconds exchange{120'000};
};

class Coordinator {
public:
  /// `socket` listens.
  Coordinator(Socket socket, int world, const RankLimits &limits);
  /// Waits until the ranks have left, but not for long.
  ~Coordinator();

private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    explicit Peer(Socket socket) : socket(std::move(socket)) {}
    MessageSocket socket;
    int rank = -1; ///< until it has joined
    std::string place;
    bool left = false, gone = false;
    Clock::time_point heard = Clock::now();
    std::vector<std::string> wanted;
    std::string name() const { return "rank " + std::to_string(rank) + " on " + place; }
  };

  void run();
  /// One message; false where the peer is none.
  bool take(Peer &peer, const Message &message);
  bool join(Peer &peer, const Message &message);
  void refuse(Peer &peer, const std::string &why);
  void answer(Peer &peer, const std::string &key);
  /// A rank's bytes, of those that all wait for.
  void gather(Peer &peer, const std::string &bytes);
  /// "rank 1 on host has left ...", where a rank waits for one that will not come.
  void checkGathering();
  void tellAll(const Message &message);
  /// All have to end.
  void lose(const std::string &why);
  /// What time brings: beats, silence, ranks that do not come.
  void watch();
  bool isDone() const;

  Socket listening;
  const int world;
  const RankLimits limits;
  const Clock::time_point began = Clock::now();
  Clock::time_point beaten = began;
  std::vector<std::unique_ptr<Peer>> peers;
  std::map<std::string, std::string> values;
  /// What the ranks have told of what all of them tell, by rank, and since when one waits.
  std::map<int, std::string> gathered;
  Clock::time_point gathering;
  std::string
      reached; ///< the address by which a rank has come, from another machine if there is one
  std::string refused; ///< why the last process that came was sent away
  bool ready = false, lost = false;
  std::atomic<bool> stopped{false};
  Clock::time_point stopping;
  std::thread thread;
};

} // namespace trainrt

#endif // TRAINRT_COMM_COORDINATOR_H
