// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank's connection to the coordinator.
#ifndef TRAINRT_COMM_CONTROL_PLANE_H
#define TRAINRT_COMM_CONTROL_PLANE_H

#include "comm/coordinator.h"

#include <condition_variable>
#include <functional>
#include <mutex>

namespace trainrt {

class ControlPlane {
public:
  /// Comes to the run and waits for all others; rank 0 is the coordinator, too, at `listening`
  /// where that is open already.
  static Status join(int rank, int world, const Endpoint &at, Socket listening,
                     const RankLimits &limits, std::unique_ptr<ControlPlane> &result);
  /// Leaves in order.
  ~ControlPlane();

  const RankLimits limits;
  /// The address by which others reach this machine.
  const std::string &address() const { return own; }
  Status set(const std::string &key, const std::string &value);
  /// Waits until some rank has set it.
  Status get(const std::string &key, std::string &value);
  /// The bytes of all ranks, by rank; all call it, in the same order among such calls. The
  /// coordinator knows for whom the others have waited too long.
  Status gather(const std::string &mine, std::vector<std::string> &all);
  /// Makes all ranks end with this reason.
  void abort(const std::string &why);
  /// Why the run has to end; OK while it need not.
  Status failure() const;
  /// As soon as it has to, on another thread; once. Null: nobody is told any more.
  void onFailure(std::function<void()> call);
  /// Waits a moment for the coordinator to say why a connection has ended.
  Status explain(const Status &otherwise);

private:
  ControlPlane(MessageSocket socket, const Endpoint &at, const RankLimits &limits)
      : limits(limits), socket(std::move(socket)),
        first("rank 0 at " + at.host + ":" + std::to_string(at.port)) {}
  void run();
  void take(const Message &message);
  void lose(const std::string &why);
  bool send(const Message &message);
  std::string nameOfFirst() const;
  /// What there is to say where the connection to the coordinator is at its end.
  std::string ended() const;

  std::unique_ptr<Coordinator> coordinator;
  MessageSocket socket;
  std::string own; ///< from `ready` on it stays
  std::mutex sending;
  mutable std::mutex mutex;
  std::condition_variable changed;
  // Under the mutex.
  std::map<std::string, std::string> values;
  std::optional<std::string> gathered; ///< the answer
  Status lost;
  std::string first; ///< by which a person knows rank 0: where it was called, then its process
  bool ready = false, stopped = false;
  std::function<void()> tell;
  std::thread thread;
};

} // namespace trainrt

#endif // TRAINRT_COMM_CONTROL_PLANE_H
