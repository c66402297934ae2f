// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A thread listens, and beats once a second.

#include "comm/control_plane.h"

#include <poll.h>
#include <unistd.h>

namespace trainrt {

using Clock = std::chrono::steady_clock;

namespace {
constexpr auto beatEvery = std::chrono::seconds(1);
constexpr int pollMilliseconds = 100;
} // namespace

/// Rank 0 starts the coordinator first and then calls it like any other rank. Behind an error
/// nothing stays: a plane that was made says that it leaves, and the coordinator's thread ends.
Status ControlPlane::join(int rank, int world, const Endpoint &at, Socket listening,
                          const RankLimits &limits, std::unique_ptr<ControlPlane> &result) {
  std::unique_ptr<Coordinator> coordinator;
  if (rank == 0) {
    if (!listening.isOpen())
      TRAINRT_TRY(listenAt(at.port, listening));
    coordinator = std::make_unique<Coordinator>(std::move(listening), world, limits);
  }
  Socket connected;
  TRAINRT_TRY(connectTo(at, limits.join, connected));
  std::unique_ptr<ControlPlane> plane(
      new ControlPlane(MessageSocket(std::move(connected)), at, limits));
  plane->coordinator = std::move(coordinator);
  // By which the coordinator is reached, others are taken to reach this rank.
  plane->own = localAddress(plane->socket.fd());
  const std::string place = hostName() + " (process " + std::to_string(::getpid()) + ")";
  // The first word of a connection: from a peer without a rank no other is taken.
  plane->send({uint32_t(Word::Join), {std::to_string(rank), std::to_string(world), place}});
  // From here on two threads use the plane: what is the mutex's is touched under it only.
  plane->thread = std::thread([plane = plane.get()] { plane->run(); });
  std::unique_lock lock(plane->mutex);
  // The coordinator says who is missing; the second limit is for one that says nothing.
  plane->changed.wait_for(lock, limits.join + limits.silence,
                          [&] { return plane->ready || !plane->lost.ok(); });
  if (!plane->lost.ok())
    return plane->lost;
  if (!plane->ready)
    return fail(Code::RankLost, "the coordinator at ", at.host, ":", at.port,
                " has taken this rank's call but does not answer it");
  lock.unlock();
  result = std::move(plane);
  return {};
}

/// Leaves first, so that the coordinator does not take the end of the connection for a loss. A call
/// of `tell` that has begun ends before the thread does; no other begins. The coordinator,
/// declared before socket and thread, goes after them.
ControlPlane::~ControlPlane() {
  send({uint32_t(Word::Leave), {}});
  {
    std::lock_guard lock(mutex);
    stopped = true;
    tell = nullptr;
  }
  if (thread.joinable())
    thread.join();
}

/// Messages of several threads go one after the other, each as a whole.
bool ControlPlane::send(const Message &message) {
  std::lock_guard lock(sending);
  return socket.send(message);
}

/// The thread: takes what comes, beats, and looks for silence. It ends when the plane is stopped or
/// the connection has ended. Behind silence it goes on; `lose` keeps the first reason.
void ControlPlane::run() {
  Clock::time_point beaten = Clock::now(), heard = beaten;
  for (;;) {
    pollfd waiting{socket.fd(), POLLIN, 0};
    const bool came = ::poll(&waiting, 1, pollMilliseconds) == 1;
    bool isThere = true;
    if (came) {
      std::deque<Message> messages;
      isThere = socket.receive(messages);
      heard = Clock::now();
      for (const Message &message : messages)
        take(message);
    }
    const Clock::time_point now = Clock::now();
    if (now - beaten >= beatEvery) {
      beaten = now;
      send({uint32_t(Word::Beat), {}});
    }
    // What came before the end has been taken: a reason among it stays the reason.
    if (!isThere)
      lose(ended());
    else if (now - heard > limits.silence)
      lose(nameOfFirst() + ", the coordinator, has not been heard of for " +
           std::to_string(limits.silence.count() / 1000) + " s");
    std::lock_guard lock(mutex);
    if (stopped || !isThere)
      return;
  }
}

std::string ControlPlane::nameOfFirst() const {
  std::lock_guard lock(mutex);
  return first;
}

/// Before all are there it may be anything that listens.
std::string ControlPlane::ended() const {
  std::lock_guard lock(mutex);
  return ready ? first + ", the coordinator, has ended"
               : first + " has taken this rank's call and ended it: no coordinator listens there, "
                         "or it has ended before all ranks were there";
}

/// A beat has done its work by coming. Other words that a rank is not told are left out.
void ControlPlane::take(const Message &message) {
  const auto word = static_cast<Word>(message.kind);
  if ((word == Word::Lost || word == Word::Refuse) && message.texts.size() == 1)
    return lose(message.texts[0]);
  std::lock_guard lock(mutex);
  if (word == Word::Ready) {
    ready = true;
    if (message.texts.size() == 2) {
      if (!message.texts[0].empty())
        own = message.texts[0];
      first = message.texts[1];
    }
  } else if (word == Word::Value && message.texts.size() == 2) {
    values[message.texts[0]] = message.texts[1];
  } else if (word == Word::Gather && message.texts.size() == 1) {
    gathered = message.texts[0];
  }
  changed.notify_all();
}

/// The first reason stays. The call is made without the mutex, which it may need itself.
void ControlPlane::lose(const std::string &why) {
  std::function<void()> call;
  {
    std::lock_guard lock(mutex);
    if (!lost.ok() || stopped)
      return;
    lost = Status(Code::RankLost, shownLines(why));
    call = std::exchange(tell, nullptr);
    changed.notify_all();
  }
  if (call)
    call();
}

/// Sent, not confirmed: a `get` of any rank waits until the coordinator has it.
Status ControlPlane::set(const std::string &key, const std::string &value) {
  return send({uint32_t(Word::Set), {key, value}}) ? Status()
                                                   : explain(Status(Code::RankLost, ended()));
}

/// For as long as an exchange may take. A value that has come before counts at once.
Status ControlPlane::get(const std::string &key, std::string &value) {
  send({uint32_t(Word::Get), {key}});
  std::unique_lock lock(mutex);
  changed.wait_for(lock, limits.exchange, [&] { return values.count(key) || !lost.ok(); });
  if (!lost.ok())
    return lost;
  auto found = values.find(key);
  if (found == values.end())
    return fail(Code::RankLost, "no rank has told '", key, "' within ",
                limits.exchange.count() / 1000, " s");
  value = found->second;
  return {};
}

/// Without a limit of its own: an answer comes, or the run is lost.
Status ControlPlane::gather(const std::string &mine, std::vector<std::string> &all) {
  const bool isSent = send({uint32_t(Word::Gather), {mine}});
  if (!isSent)
    return explain(Status(Code::RankLost, ended()));
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return gathered || !lost.ok(); });
  if (!gathered)
    return lost;
  const std::string packed = *std::exchange(gathered, std::nullopt);
  return unpackTexts(packed, all)
             ? Status()
             : Status(Code::RankLost, "rank 0 runs another version of the runtime");
}

void ControlPlane::abort(const std::string &why) { send({uint32_t(Word::Abort), {why}}); }

Status ControlPlane::failure() const {
  std::lock_guard lock(mutex);
  return lost;
}

/// Where the run is lost already the call is made at once, on this thread.
void ControlPlane::onFailure(std::function<void()> call) {
  {
    std::lock_guard lock(mutex);
    if (lost.ok() || !call) {
      tell = std::move(call);
      return;
    }
  }
  call();
}

/// Ranks often notice an end before the coordinator has said whose it is.
Status ControlPlane::explain(const Status &otherwise) {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, std::chrono::seconds(2), [&] { return !lost.ok(); });
  return lost.ok() ? otherwise : lost;
}

} // namespace trainrt
